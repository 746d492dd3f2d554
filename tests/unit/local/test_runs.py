"""What a local run decides without Spark: locks, error messages, options."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import typer

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask, Lag
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress, ReplayTask
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Owner, Table, TableState
from messagestore_jobs.driver import idle_check
from messagestore_jobs.driver.execute import IdleCheck
from messagestore_jobs.driver.folders import written_tables
from messagestore_operator.cli.options import memory, moment, seconds
from messagestore_operator.local import run
from messagestore_operator.manifests.load import load
from support.resources import replay_to_kafka, stream_from_files

OWNER = Owner(namespace="default", name="orders")
INGEST = IngestTask(source_id="s", source=FilesSource(uri="file:///landing"))
OTHER = StreamDestination(table=Table(uri="file:///a-target", owner=OWNER), ingest=INGEST)
FILES = FilesDestination(uri="file:///replayed")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (INGEST, ["file:///orders"]),
        (PurgeTask(mode="Enforce"), ["file:///orders"]),
        (ReplayTask(job_id="j", destination=FILES), []),
        (ReplayTask(job_id="j", destination=OTHER), ["file:///a-target"]),
        (ReplayTask(job_id="j", destination=OTHER, mode="DryRun"), []),
        (ReplayTask(job_id="j", destination=FILES, origin="DeadLetters"), []),
        (ReplayTask(job_id="j", destination=OTHER, origin="DeadLetters"), ["file:///a-target", "file:///orders"]),
    ],
)
def test_a_run_locks_the_tables_that_it_writes(task: IngestTask | PurgeTask | ReplayTask, expected: list[str]) -> None:
    resource = Resource(kind="MessageStream", namespace="default", name="orders")
    table = Table(uri="file:///orders", owner=OWNER)
    assert written_tables(RunDocument(run="r", resource=resource, table=table, task=task)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("90", 90), ("1.5s", 1.5), ("300ms", 0.3), ("5m", 300), ("1h", 3600), ("PT90S", 90), ("P1D", 86400)],
)
def test_a_duration_is_read_in_seconds(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "soon", "-1", "5 m", "P1M", "1d2h"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)


def test_a_time_is_read_with_its_zone() -> None:
    assert moment("2026-04-06T00:00:00Z") == datetime(2026, 4, 6, tzinfo=UTC)
    assert moment("2026-04-06T00:00:00.5+02:00") == datetime(
        2026, 4, 6, 0, 0, 0, 500000, tzinfo=timezone(timedelta(hours=2))
    )


@pytest.mark.parametrize("text", ["", "now", "2026-04-06", "2026-04-06T00:00:00", "2026-02-30T00:00:00Z"])
def test_a_text_that_is_no_time_with_a_zone_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment(text)


@pytest.mark.parametrize(("text", "good"), [("2g", True), ("512M", True), ("2", False), ("0g", False), ("2gb", False)])
def test_a_size_of_memory_is_accepted_or_refused(text: str, good: bool) -> None:
    if good:
        assert memory(text) == text
    else:
        with pytest.raises(typer.BadParameter):
            memory(text)


def test_a_replay_that_went_on_without_messages_did_not_end_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream, job = stream_from_files(), replay_to_kafka()
    stream["spec"]["suspend"] = True
    for document in (stream, job):
        (tmp_path / f"{document['kind']}.json").write_text(json.dumps(document))
    selection = FrozenSelection(table_version=1, messages=13, bytes=1)
    progress = ReplayProgress(replayed=12, failed=1, percent=100)
    outcome = ReplayOutcome(selection=selection, progress=progress, complete=True)
    report = RunReport(run="r", sequence=1, state="Succeeded", started_at=datetime.now(UTC), outcome=outcome)
    monkeypatch.setattr(run, "execute", lambda *_: report)
    ended = run.LocalRun(load([str(tmp_path)]), MagicMock(), MagicMock(), 0).run()
    assert [(one.resource.identity[0], one.well) for one in ended] == [("MessageStream", True), ("ReplayJob", False)]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["a folder", "a file"])
def test_a_source_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    stream = stream_from_files()
    stream["spec"]["table"]["uri"] = f"file://{tmp_path}/store"
    stream["spec"] |= {"source": {"files": {"uri": f"file://{tmp_path}/landing%20a"}}, "suspend": False}
    (tmp_path / "stream.json").write_text(json.dumps(stream))
    table, lag = TableState(version=1, messages=0, dead_letters=0, bytes=0), Lag(as_of=datetime.now(UTC), files=0)
    outcome = IngestOutcome(counts=IngestCounts(), totals=IngestCounts(), batches=0, table=table, lag=lag)
    report = RunReport(run="r", sequence=1, state="Succeeded", started_at=datetime.now(UTC), outcome=outcome)
    monkeypatch.setattr(run, "execute", lambda *_: report)

    def told() -> list[str]:
        console = MagicMock()
        run.LocalRun(load([str(tmp_path / "stream.json")]), MagicMock(), console, 0).run()
        return [call.args[0] for call in console.say.call_args_list]

    absent = f"r: there is no folder {tmp_path}/landing%20a yet, so nothing arrives there"
    assert absent in told()
    make(tmp_path / "landing%20a")
    assert absent not in told()


@pytest.mark.parametrize(("streams", "little"), [(1, True), (2, False)])
def test_the_look_at_a_streams_source_counts_only_where_it_is_the_only_resource(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, streams: int, little: bool
) -> None:
    for number in range(streams):
        stream = stream_from_files()
        stream["metadata"]["name"] = f"stream-{number}"
        stream["spec"]["table"]["uri"] = f"file://{tmp_path}/store-{number}"
        stream["spec"] |= {"source": {"files": {"uri": f"file://{tmp_path}/landing"}}, "suspend": False}
        (tmp_path / f"{number}.json").write_text(json.dumps(stream))
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.jsonl").write_bytes(b"x")
    monkeypatch.setattr(idle_check, "LITTLE_BYTES", 0)
    monkeypatch.setattr(run, "check_for_work", lambda *_: IdleCheck(bytes=0))
    report = RunReport(run="r", sequence=1, state="Failed", started_at=datetime.now(UTC))
    monkeypatch.setattr(run, "execute", lambda *_: report)
    spark = MagicMock()
    run.LocalRun(load([str(tmp_path / f"{number}.json") for number in range(streams)]), spark, MagicMock(), 0).run()
    assert [call.kwargs["little"] for call in spark.session.call_args_list] == [little] * streams
