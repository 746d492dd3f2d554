"""A run with nothing to do reports the same without Spark as with it; a run that may have work starts Spark."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.purge import Hold, Match, PurgeTask, Rule
from messagestore_core.contract.records import Translator
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import MaintainTask, RunDocument
from messagestore_core.contract.run_report import Outcome, RunReport
from messagestore_core.store.delta_log import committed_batch
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import Batch, Range, ReadFiles, SourceFile
from messagestore_core.store.handle import Store
from messagestore_jobs.driver import idle_check
from messagestore_jobs.driver.execute import check_for_work, execute
from messagestore_jobs.lock import writing
from messagestore_jobs.session import using
from support.ended import end_run
from support.ingests import START, Heard, Stream, lines, record
from support.kept import Kept
from support.lifecycles import Updated, update

SOON = START + timedelta(hours=1)


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Stream]:
    folder = tmp_path_factory.mktemp("idle")
    stream = Stream(spark, folder / "now")
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", streamName="order-2")))
    stream.arrive("below/b c%20.jsonl", lines(record("m1"), b"{"))
    stream.arrive("empty.jsonl", b"")
    stream.run()
    return Kept.of(stream, folder / "kept")


@pytest.fixture
def stream(kept: Kept[Stream]) -> Stream:
    return kept.again()


def clock() -> datetime:
    return SOON


def looked(document: RunDocument) -> Outcome | None:
    report = check_for_work(document, clock).report
    return None if report is None else report.outcome


def _without_usage(report: RunReport) -> RunReport:
    return report.model_copy(update={"usage": None})


def has_little(document: RunDocument) -> bool:
    found = check_for_work(document, clock)
    assert found.report is None
    return found.little


def test_an_idle_check_reports_what_a_run_with_spark_reports(stream: Stream) -> None:
    document = stream.document()
    report = check_for_work(document, clock).report
    assert report.usage.bytes_written is None
    assert _without_usage(report) == _without_usage(execute(document, lambda: stream.spark, Heard(), 0, clock))


def test_hidden_files_do_not_count_nor_does_a_folder_that_was_gone_before(stream: Stream) -> None:
    stream.arrive(".a.jsonl.part", b"x")
    stream.arrive("_work/a.jsonl", b"x")
    assert looked(stream.document()) is not None
    shutil.rmtree(stream.landing)
    assert looked(stream.document()) is None
    stream.run()
    assert looked(stream.document()) is not None


def test_an_idle_check_reports_a_lifecycle_as_a_run_with_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1", ttl="PT1H"), record("m2")))
    stream.tell(update("m1", "COMPLETED"))
    assert stream.run().lifecycle is not None
    document = stream.document(at=START + timedelta(minutes=1), lifecycle=stream.lifecycle())
    report = check_for_work(document, clock).report
    assert report is not None
    assert _without_usage(report) == _without_usage(execute(document, lambda: spark, Heard(), 0, clock))
    stream.tell(update("m2", "PROCESSING"))
    assert looked(document) is None


def test_a_waiting_update_is_left_to_spark_once_its_time_is_over(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    stream.tell(update("m1", "COMPLETED"))
    stream.run()
    until = START + stream.lifecycle().pending_for
    outcome = looked(stream.document(at=until - timedelta(seconds=1), lifecycle=stream.lifecycle()))
    assert outcome.lifecycle.pending == 1
    assert looked(stream.document(at=until, lifecycle=stream.lifecycle())) is None


def test_a_message_in_progress_may_have_timed_out(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path, processing_timeout=timedelta(hours=1))
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.run()
    assert looked(stream.document(lifecycle=stream.lifecycle())) is not None
    stream.tell(update("m1", "PROCESSING"))
    stream.run()
    assert looked(stream.document(lifecycle=stream.lifecycle())) is None


def test_the_last_line_of_a_file_is_left_to_spark_once_the_file_rests(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, written = Stream(spark, tmp_path, settings={"last_line_after": timedelta(hours=1)}), datetime.now(UTC)
    stream.arrive("a.jsonl", lines(record("m1")) + b'{"messageId"', at=written)
    stream.run()
    outcome = looked(stream.document())
    assert outcome.lag.files == 1
    later = SimpleNamespace(now=lambda zone: written + timedelta(hours=1))
    monkeypatch.setattr(idle_check, "datetime", later)
    assert looked(stream.document()) is None


def arrives(stream: Stream) -> None:
    stream.arrive("c.jsonl", lines(record("m3")))


def arrives_empty(stream: Stream) -> None:
    stream.arrive("c.jsonl", b"")


def is_touched(stream: Stream) -> None:
    os.utime(stream.landing / "a.jsonl")


def is_a_link(stream: Stream) -> None:
    outside = stream.landing.parent / "outside.jsonl"
    outside.write_bytes(lines(record("m9")))
    (stream.landing / "link.jsonl").symlink_to(outside)


def leads_elsewhere(stream: Stream) -> None:
    (stream.landing / "link").symlink_to(stream.landing / "below")


def was_planned(stream: Stream) -> None:
    uri = stream.table.uri
    batch = Batch(committed_batch(Store(uri), "landing") + 1, START, (Range(SourceFile("file:///x", 1, START), 0, 1),))
    ReadFiles(HeldStore(uri), "landing").write_down(batch)


def lacks_a_table(stream: Stream) -> None:
    shutil.rmtree(stream.folder / "store/heads")


def has_no_marker(stream: Stream) -> None:
    (stream.folder / "store/_messagestore.json").unlink()


def has_a_sequence(stream: Stream) -> None:
    stream.arrive("s.jsonl", lines(record("s1", sequenceId="s", sequenceNumber=1)))
    stream.run()


def may_expire(stream: Stream) -> None:
    stream.arrive("t.jsonl", lines(record("t1", ttl="PT1S")))
    stream.run(at=START - timedelta(seconds=1))


@pytest.mark.parametrize(
    "happens",
    [
        arrives,
        arrives_empty,
        is_touched,
        is_a_link,
        leads_elsewhere,
        was_planned,
        lacks_a_table,
        has_no_marker,
        has_a_sequence,
        may_expire,
    ],
)
def test_what_may_be_something_to_do_is_left_to_spark(stream: Stream, happens: Callable[[Stream], None]) -> None:
    happens(stream)
    assert looked(stream.document()) is None


@pytest.mark.parametrize(
    "asked",
    [
        {"source_id": "another"},
        {"holds": (Hold(name="audit", match=Match(categories=("order",))),)},
        {"translators": (Translator(from_version=0),)},
        {"batch_interval": timedelta(seconds=1)},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_a_changed_document_is_left_to_spark(stream: Stream, asked: dict[str, Any]) -> None:
    assert looked(stream.document(**asked)) is None


def of_table(document: RunDocument, **change: object) -> RunDocument:
    return document.model_copy(update={"table": document.table.model_copy(update=change)})


def test_a_store_that_must_not_be_written_is_left_to_the_run_which_refuses_it(stream: Stream) -> None:
    document = stream.document()
    others = document.table.owner.model_copy(update={"name": "others"})
    assert looked(of_table(document, owner=others)) is None
    assert looked(of_table(document, epoch=1)) is not None
    end_run(of_table(document, epoch=2))
    for epoch, may_write in ((None, False), (1, False), (2, True), (3, True)):
        assert (looked(of_table(document, epoch=epoch)) is not None) == may_write


def test_a_store_that_is_being_written_is_left_to_a_run_that_waits(stream: Stream) -> None:
    document = stream.document()
    uri = document.table.uri
    with using((), stream.spark), writing(uri, stream.spark, 0, print):
        assert looked(document) is None
    # The lock that a killed run's JVM still holds.
    path = Path(f"{stream.folder}/store.messagestore-lock")
    channel = stream.spark._jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
    held = channel.lock()
    assert looked(document) is None
    held.release()
    channel.close()
    assert looked(document) is not None


def test_an_idle_check_changes_nothing_and_needs_no_spark(stream: Stream) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in (stream.folder / "store").rglob("*"))
    code = (
        "import sys; from datetime import datetime; from messagestore_jobs.driver.execute import check_for_work; "
        "from messagestore_core.contract.run_document import RunDocument; "
        "report = check_for_work(RunDocument.model_validate_json(sys.stdin.read()), datetime.now).report; "
        "sys.exit(report is None or 'pyspark' in sys.modules)"
    )
    text = stream.document().model_dump_json(by_alias=True)
    subprocess.run([sys.executable, "-c", code], input=text, text=True, check=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in (stream.folder / "store").rglob("*")) == before


def test_a_run_with_few_unread_bytes_in_few_files_has_little_to_do(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = stream.document()
    monkeypatch.setattr(idle_check, "LITTLE_BYTES", 100)
    monkeypatch.setattr(idle_check, "LITTLE_FILES", 2)
    stream.arrive("b.jsonl", b"x" * 60)
    assert has_little(document)
    stream.arrive("c.jsonl", b"x" * 40)
    assert has_little(document)
    stream.arrive("c.jsonl", b"x" * 41)
    assert not has_little(document)
    stream.arrive("c.jsonl.gz", b"x" * 4)
    (stream.landing / "c.jsonl").unlink()
    assert has_little(document)
    stream.arrive("c.jsonl.gz", b"x" * 5)
    assert not has_little(document)
    stream.arrive("c.jsonl.gz", b"x")
    stream.arrive("d.jsonl", b"x")
    assert not has_little(document)


def test_a_first_run_with_few_bytes_in_its_source_has_little_to_do(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.store = "another"
    document = stream.document()
    assert has_little(document)
    monkeypatch.setattr(idle_check, "LITTLE_BYTES", 100)
    assert not has_little(document)


def test_the_store_counts_until_a_run_has_opened_the_index(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    document = stream.document()
    monkeypatch.setattr(idle_check, "LITTLE_BYTES", stream.run().table.bytes)
    stream.arrive("b.jsonl", lines(record("m3")))
    assert not has_little(document)
    stream.run()
    stream.arrive("c.jsonl", lines(record("m4")))
    assert has_little(document)


def redrive(document: RunDocument) -> ReplayTask:
    """A redrive of all dead letters into the stream of an ingest."""
    to = StreamDestination(table=document.table, ingest=document.task)
    return ReplayTask(job_id="redrive", origin="DeadLetters", destination=to)


def purge_of_all(document: RunDocument) -> PurgeTask:
    return PurgeTask(mode="Enforce", rules=(Rule(name="all", statuses=("RECEIVED",)),))


def maintenance(document: RunDocument) -> MaintainTask:
    return MaintainTask()


@pytest.mark.parametrize("other", [maintenance, purge_of_all, redrive])
def test_after_a_run_of_another_kind_an_idle_check_reports_what_a_run_with_spark_reports(
    stream: Stream, other: Callable[[RunDocument], MaintainTask | PurgeTask | ReplayTask]
) -> None:
    document = stream.document()
    done = execute(document.model_copy(update={"task": other(document)}), lambda: stream.spark, Heard(), 0, clock)
    assert done.error is None
    report = check_for_work(document, clock).report
    assert report is not None
    assert _without_usage(report) == _without_usage(execute(document, lambda: stream.spark, Heard(), 0, clock))
    stream.arrive("b.jsonl", lines(record("m3")))
    assert has_little(document)


def test_after_a_purge_an_idle_check_reports_a_lifecycle_as_a_run_with_spark_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1", ttl="PT1H"), record("m2")))
    stream.tell(update("m1", "COMPLETED"), update("m9", "COMPLETED"))
    stream.run()
    document = stream.document(at=START + timedelta(minutes=1), lifecycle=stream.lifecycle())
    purge = document.model_copy(update={"task": purge_of_all(document)})
    assert execute(purge, lambda: spark, Heard(), 0, clock).error is None
    report = check_for_work(document, clock).report
    assert report is not None
    assert _without_usage(report) == _without_usage(execute(document, lambda: spark, Heard(), 0, clock))


def test_a_run_of_another_kind_after_one_that_broke_off_leaves_the_rest_to_spark(stream: Stream) -> None:
    document = stream.document()
    was_planned(stream)
    maintain = document.model_copy(update={"task": MaintainTask()})
    assert execute(maintain, lambda: stream.spark, Heard(), 0, clock).error is None
    assert looked(document) is None


def test_updates_and_expiry_may_read_the_store(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Updated(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", ttl="PT1H")))
    of_store = stream.run().table.bytes
    due = stream.document(at=START + timedelta(hours=1), lifecycle=stream.lifecycle())
    stream.arrive("b.jsonl", b"x" * 60)
    new = stream.document(lifecycle=stream.lifecycle())
    for document, size in ((due, of_store + 60), (new, of_store + 60)):
        monkeypatch.setattr(idle_check, "LITTLE_BYTES", size)
        assert has_little(document)
        monkeypatch.setattr(idle_check, "LITTLE_BYTES", size - 1)
        assert not has_little(document)


def test_a_run_with_a_batch_that_broke_off_has_more_than_little_to_do(stream: Stream) -> None:
    document = stream.document()
    stream.arrive("b.jsonl", b"x")
    assert has_little(document)
    was_planned(stream)
    assert not has_little(document)
