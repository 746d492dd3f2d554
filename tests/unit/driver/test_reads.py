"""How much a purge or a replay reads at most, as the log of its store tells it before Spark starts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, Hold, Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import Interval, ReplayTask, Selection, Sequences, TimeWindow
from messagestore_core.contract.stores import Table
from messagestore_core.store.delta_log import DAY, files_of
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver import reads
from messagestore_jobs.driver.reads import bytes_to_read
from support.purges import erase_document, purge_document
from support.replays import files_replay, replay_document
from support.stores import add_dead_letters, add_messages, change_rows, make_store, message

FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = Rule(name="old", max_age=timedelta(days=30))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A store with a file of each of three days, of a stream of its own."""
    days = [[message(day, inserted_at=FIRST + timedelta(days=day), stream_name=f"{'abc'[day]}-1")] for day in range(3)]
    return make_store(tmp_path / "store", *days)


def of_days(table: Table, *days: int) -> int:
    """The bytes of the files of some days."""
    names = [(FIRST + timedelta(days=day)).date() for day in days]
    files = files_of(Store(table.uri).table("messages")).to_pylist()
    return sum(file["size_bytes"] for file in files if file[DAY] in names)


def purged(table: Table, before: datetime, **task: Any) -> int | None:
    """What a purge reads by rule ``OLD``, at a time when everything before that is older."""
    document = purge_document(table, before + timedelta(days=30), **{"rules": (OLD,), **task})
    return bytes_to_read(document, Storage())


def replayed(table: Table, folder: Path, **select: Any) -> int | None:
    return bytes_to_read(files_replay(table, folder / "again", select=Selection(**select)), Storage())


def test_a_purge_by_age_reads_no_day_that_leaves_whole_and_none_that_is_young(table: Table) -> None:
    assert purged(table, FIRST) == 0
    assert purged(table, FIRST + timedelta(days=1, hours=12)) == 0
    assert purged(table, FIRST + timedelta(days=1, minutes=1)) == of_days(table, 1) > 0


def test_a_day_that_leaves_is_read_if_its_messages_are_archived_remembered_or_held(table: Table) -> None:
    after = FIRST + timedelta(days=1, minutes=1)
    both = of_days(table, 0, 1)
    assert purged(table, after, archive=Archive(uri="file:///archive")) == both
    assert purged(table.model_copy(update={"remember_purged": timedelta(days=1)}), after) == both
    assert purged(table, after, holds=(Hold(name="audit", match=Match()),)) == both


@pytest.mark.parametrize("more", [{"erase": True}, {"max_messages_per_stream": 1}, {"max_age": None, "expired": True}])
def test_a_purge_may_have_to_look_at_all_messages(table: Table, more: dict[str, Any]) -> None:
    rules = (OLD, OLD.model_copy(update={"name": "more", **more}))
    assert purged(table, FIRST, rules=rules) == of_days(table, 0, 1, 2)


def test_a_purge_by_no_rule_reads_nothing(table: Table) -> None:
    assert purged(table, FIRST, rules=(Rule(name="empty"),), dead_letters_max_age=timedelta(0)) == 0


def test_a_replay_reads_the_files_that_may_have_what_it_selects(table: Table, tmp_path: Path) -> None:
    assert replayed(table, tmp_path) == of_days(table, 0, 1, 2)
    window = TimeWindow.model_validate({"from": FIRST + timedelta(days=1)})
    assert replayed(table, tmp_path, time_window=window) == of_days(table, 1, 2)
    places = Interval.model_validate({"from": 0, "to": 1})
    assert replayed(table, tmp_path, global_positions=places) == of_days(table, 0, 1)
    assert replayed(table, tmp_path, categories=("b",)) == of_days(table, 1)
    assert replayed(table, tmp_path, stream_names=("c-1", "d-1"), time_window=window) == of_days(table, 2)
    assert replayed(table, tmp_path, statuses=("FAILED",)) == 0


def test_whether_a_sequence_is_complete_depends_on_all_messages(table: Table, tmp_path: Path) -> None:
    complete = Sequences(complete_only=True)
    assert replayed(table, tmp_path, categories=("b",), sequences=complete) == of_days(table, 0, 1, 2)


def test_a_redelivery_reads_the_files_with_messages_that_are_not_done(table: Table, tmp_path: Path) -> None:
    change_rows(table.uri, "messages", {"status": "'COMPLETED'"}, "global_position < 2")
    assert replayed(table, tmp_path, due_for_retry=True, categories=("a",)) == of_days(table, 2)


def test_a_redrive_reads_dead_letters(table: Table) -> None:
    add_dead_letters(table.uri, [{"raw": b"x", "failed_at": FIRST}])
    add_dead_letters(table.uri, [{"raw": b"x", "failed_at": FIRST + timedelta(days=1), "reason": "Invalid"}])
    first, second = files_of(Store(table.uri).table("dead_letters")).sort_by("min.failed_at")["size_bytes"].to_pylist()
    to = StreamDestination(table=table, ingest=IngestTask(source_id="a", source=FilesSource(uri="file:///a")))

    def redriven(**select: Any) -> int | None:
        task = ReplayTask(job_id="again", origin="DeadLetters", destination=to, select=Selection(**select))
        return bytes_to_read(replay_document(table, task), Storage())

    assert redriven() == first + second
    assert redriven(reasons=("Invalid",)) == second


def test_the_bytes_to_read_are_unknown_for_other_kinds_of_work(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = table.model_copy(update={"uri": f"file://{tmp_path}/nowhere"})
    assert purged(nowhere, FIRST) is None
    assert bytes_to_read(erase_document(table, FIRST), Storage()) is None
    monkeypatch.setattr(reads, "_FEW_MESSAGES", 0)
    to = StreamDestination(table=table, ingest=IngestTask(source_id="a", source=FilesSource(uri="file:///a")))
    assert bytes_to_read(replay_document(table, ReplayTask(job_id="a", destination=to)), Storage()) is None


def test_the_bytes_to_read_are_unknown_for_many_files_and_for_claim_checks(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = message(3, payload=None, payload_uri="payloads/3", inserted_at=FIRST + timedelta(days=3), stream_name="d-1")
    add_messages(table.uri, [apart])
    assert replayed(table, tmp_path) is None
    assert replayed(table, tmp_path, categories=("a", "b")) == of_days(table, 0, 1)
    later = FIRST + timedelta(days=4, hours=12)
    assert purged(table, later, rules=(OLD, Rule(name="done", statuses=("COMPLETED",)))) == of_days(table, 0, 1, 2, 3)
    assert purged(table, later, archive=Archive(uri="file:///archive")) is None
    monkeypatch.setattr(reads, "_MOST_FILES", 1)
    assert replayed(table, tmp_path, categories=("a", "b")) is None
