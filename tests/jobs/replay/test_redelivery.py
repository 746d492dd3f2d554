"""Redelivery: due messages are marked as tried again before they are sent, and sent once, despite crashes."""

import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore.reader import Reader
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.crash import crash_run
from support.external_writes import observing
from support.long import few
from support.replays import AT, Crash, Suspending, crash_at, files_replay, records, replay_document, sent
from support.stores import Row, add_messages, change_rows, make_store, message, stored

MINUTE = timedelta(minutes=1)
DUE = Selection(due_for_retry=True)
WRITES = {
    "replay-selected": 1,
    "replay-frozen": 1,
    "create-history": 1,
    "history-begun": 1,
    "history": 1,
    "lifecycle": 1,
    "replay-staging": 1,
    "replay-seal": 1,
    "replay-object": 1,
    "replay-ending": 1,
    "replay-manifest": 1,
    "audit-replay": 1,
}


def failed(number: int, retries: int = 1, due: datetime | None = AT, **given: Any) -> Row:
    return message(number, status="FAILED", retries=retries, next_retry_at=due, **given)


def store(folder: Path, *rows: Row) -> Table:
    return make_store(folder, rows).model_copy(update={"keeps_history": True})


def changes(table: Table) -> list[tuple[str, int, str, str, str]]:
    """The history of the first two messages."""
    history = [row for message_id in ("m1", "m2") for row in Reader(table.uri).history(message_id)]
    return [(row.message_id, row.attempt, row.from_status, row.to_status, row.run) for row in history]


def redelivery(table: Table, folder: Path, at: datetime = AT, **task: Any) -> RunDocument:
    document = files_replay(table, folder, **{"select": DUE, "rounds": True, **task})
    return document.model_copy(update={"at": at})


def states(table: Table) -> dict[int, tuple[str, int]]:
    return {row["global_position"]: (row["status"], row["retries"]) for row in stored(table.uri)}


def answer(table: Table, position: int, **columns: str) -> None:
    """Change a message as an update would."""
    change_rows(table.uri, "messages", columns, f"global_position = {position}")


def test_a_due_message_is_sent_with_its_attempt_and_marked_as_processing(spark: SparkSession, tmp_path: Path) -> None:
    table = store(
        tmp_path / "store",
        failed(1),
        failed(2, due=AT + MINUTE),
        failed(3, due=None),
        failed(4, retries=3, headers={"k": "v"}),
        failed(5, expires_at=AT),
        message(6),
        message(7, status="PROCESSING", retries=1),
    )
    outcome = run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()))
    assert (outcome.complete, outcome.round, outcome.progress.replayed) == (True, 1, 2)
    folder = tmp_path / "out" / "round-00000001"
    assert sent(folder) == [1, 4]
    first, second = records(folder)
    assert (first["status"], first["retries"], first["headers"]) == ("PROCESSING", 1, {"x-attempt": "2"})
    assert second["headers"] == {"k": "v", "x-attempt": "4"}
    assert "nextRetryAt" not in first
    assert states(table) == {
        1: ("PROCESSING", 1),
        2: ("FAILED", 1),
        3: ("FAILED", 1),
        4: ("PROCESSING", 3),
        5: ("FAILED", 1),
        6: ("RECEIVED", 0),
        7: ("PROCESSING", 1),
    }
    assert {row["global_position"] for row in stored(table.uri) if row["updated_at"] == AT} == {1, 4}
    assert changes(table) == [("m1", 2, "FAILED", "PROCESSING", "replay-1")]


def test_no_message_is_redelivered_before_its_report_has_come(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1), failed(2))
    run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()))
    idle = run_replay(Run.of(redelivery(table, tmp_path / "out", AT + MINUTE), spark, Silent()))
    assert (idle.complete, idle.round, idle.selection.messages) == (True, 1, 0)
    answer(table, 2, status="'FAILED'", retries="2", next_retry_at=f"'{AT.isoformat()}'")
    again = run_replay(Run.of(redelivery(table, tmp_path / "out", AT + MINUTE), spark, Silent()))
    assert (again.complete, again.round) == (True, 2)
    (record,) = records(tmp_path / "out" / "round-00000002")
    assert (record["globalPosition"], record["headers"]) == (2, {"x-attempt": "3"})
    assert sorted(path.name for path in (tmp_path / "out").glob("round*/manifest.json")) == ["manifest.json"] * 2


def test_an_empty_round_leaves_the_store_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", message(1))
    version = Store(table.uri).table("messages").version()
    outcome = run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()))
    assert (outcome.complete, outcome.round, outcome.selection.messages) == (True, 0, 0)
    assert Store(table.uri).table("messages").version() == version


def test_a_redelivery_without_rounds_is_one_replay(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1))
    outcome = run_replay(Run.of(redelivery(table, tmp_path / "out", rounds=False), spark, Silent()))
    assert (outcome.round, sent(tmp_path / "out")) == (None, [1])
    answer(table, 1, status="'FAILED'", retries="2", next_retry_at=f"'{AT.isoformat()}'")
    again = run_replay(Run.of(redelivery(table, tmp_path / "out", rounds=False), spark, Silent()))
    assert again.model_copy(update={"table": outcome.table}) == outcome


def test_a_limit_leaves_the_rest_for_the_next_round(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", *(failed(n) for n in range(1, 6)))
    limited = Selection(due_for_retry=True, limit=2)
    for number, expected in ((1, [1, 2]), (2, [3, 4]), (3, [5])):
        run_replay(Run.of(redelivery(table, tmp_path / "out", select=limited), spark, Silent()))
        assert sent(tmp_path / "out" / f"round-{number:08d}") == expected
    assert set(states(table).values()) == {("PROCESSING", 1)}


HELD_BACK = {
    "none": ({}, [2, 3, 4, 6, 8, 9, 11]),
    "behind one that is retried": ({"held_back": "Retrying"}, [2, 6, 8, 9]),
    "behind one that failed": ({"held_back": "Failed"}, [2, 8, 9]),
    "of a stream": ({"held_back": "Retrying", "grouped_by": "stream_name"}, [3]),
}


@pytest.mark.parametrize("name", few(HELD_BACK, "behind one that failed"))
def test_a_group_is_held_back_behind_its_failed_member(spark: SparkSession, tmp_path: Path, name: str) -> None:
    held_back, expected = HELD_BACK[name]
    later = AT + MINUTE
    table = store(
        tmp_path / "store",
        message(1, correlation_id="a"),
        failed(2, correlation_id="a"),
        failed(3, correlation_id="a", stream_name="shop-1"),
        failed(4, correlation_id="out", stream_name="shop-1"),
        failed(5, correlation_id="good", due=None),
        failed(6, correlation_id="good"),
        failed(7, correlation_id="wait", due=later),
        failed(8),
        failed(9),
        failed(10, correlation_id="late", due=later),
        failed(11, correlation_id="wait"),
    )
    add_messages(table.uri, [message(0, correlation_id="out", status="PROCESSING", retries=1)])
    select = Selection(due_for_retry=True, **held_back)
    run_replay(Run.of(redelivery(table, tmp_path / "out", select=select), spark, Silent()))
    assert sent(tmp_path / "out" / "round-00000001") == expected


@pytest.mark.long
def test_the_next_of_a_group_goes_once_the_first_is_done(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1, correlation_id="a"), failed(2, correlation_id="a"))
    select = Selection(due_for_retry=True, held_back="Retrying")
    run_replay(Run.of(redelivery(table, tmp_path / "out", select=select), spark, Silent()))
    assert (
        run_replay(Run.of(redelivery(table, tmp_path / "out", select=select), spark, Silent())).selection.messages == 0
    )
    answer(table, 1, status="'COMPLETED'")
    run_replay(Run.of(redelivery(table, tmp_path / "out", select=select), spark, Silent()))
    assert [sent(tmp_path / "out" / f"round-{n:08d}") for n in (1, 2)] == [[1], [2]]


def test_a_round_that_was_suspended_is_ended_before_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 1)
    table = store(tmp_path / "store", failed(1), failed(2), failed(3), failed(4, due=AT + MINUTE))
    paused = run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()), Suspending(1))
    assert (paused.complete, paused.round) == (False, 1)
    assert Counter(states(table).values()) == {("PROCESSING", 1): 3, ("FAILED", 1): 1}
    went_on = run_replay(Run.of(redelivery(table, tmp_path / "out", AT + MINUTE), spark, Silent()))
    assert (went_on.complete, went_on.round) == (True, 2)
    assert [sent(tmp_path / "out" / f"round-{n:08d}") for n in (1, 2)] == [[1, 2, 3], [4]]


@pytest.mark.long
def test_a_round_whose_files_were_taken_away_is_not_sent_again(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1))
    for rounds in (True, False):
        folder = tmp_path / f"out-{rounds}"
        job_id = f"job-{rounds}"
        answer(table, 1, status="'FAILED'", next_retry_at=f"'{AT.isoformat()}'")
        run_replay(Run.of(redelivery(table, folder, rounds=rounds, job_id=job_id), spark, Silent()))
        shutil.rmtree(folder)
        outcome = run_replay(Run.of(redelivery(table, folder, rounds=rounds, job_id=job_id), spark, Silent()))
        assert (outcome.complete, outcome.selection.messages) == (True, 0)


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_rounds_into_a_stream_leave_one_note_behind(spark: SparkSession, tmp_path: Path, killed: bool) -> None:
    table = store(tmp_path / "store", failed(1), failed(2))
    target = Table(uri=f"file://{tmp_path}/target", owner=Owner(namespace="default", name="target"))
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    task = ReplayTask(
        job_id="job-1",
        rounds=True,
        select=Selection(due_for_retry=True, limit=1),
        destination=StreamDestination(table=target, ingest=ingest),
    )
    for number in range(3):
        if killed and number == 1:
            with observing(crash_at("replay-forgotten", "before", 1)), pytest.raises(Crash):
                run_replay(Run.of(replay_document(table, task), spark, Silent()))
        assert run_replay(Run.of(replay_document(table, task), spark, Silent())).complete
    arrived = stored(target.uri)
    assert [(row["message_id"], row["status"], row["headers"]["x-attempt"]) for row in arrived] == [
        ("m1", "PROCESSING", "2"),
        ("m2", "PROCESSING", "2"),
    ]
    assert [path.name for path in (tmp_path / "target/_replays").iterdir() if list(path.iterdir())] == ["job-1-2"]


def test_the_crashes_below_cover_every_write(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1), failed(2))
    writes: list[str] = []
    with observing(lambda name, moment: writes.append(name) if moment == "after" else None):
        run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()))
    counted = Counter(name for name in writes if not name.startswith("replay-remove"))
    assert counted.pop("replay-object") >= 1
    assert counted == {name: times for name, times in WRITES.items() if name != "replay-object"}


CRASHES = [(name, moment) for name in WRITES for moment in ("before", "after")]


@pytest.mark.parametrize(
    ("name", "moment"),
    few(CRASHES, ("history", "after")),
)
def test_cut_off_anywhere_each_message_is_noted_and_sent_once(
    spark: SparkSession, tmp_path: Path, name: str, moment: str
) -> None:
    table = store(tmp_path / "store", failed(1), failed(2))

    def crash(at: str, when: str) -> None:
        if (at, when) == (name, moment):
            raise Crash

    with observing(crash), pytest.raises(Crash):
        run_replay(Run.of(redelivery(table, tmp_path / "out"), spark, Silent()))
    # An answer that arrives before the round continues does not change the round.
    noted = states(table)[1] == ("PROCESSING", 1)
    if noted:
        answer(table, 1, status="'COMPLETED'")
    outcome = run_replay(Run.of(redelivery(table, tmp_path / "out", AT + MINUTE), spark, Silent()))
    assert outcome.complete
    assert sent(tmp_path / "out" / "round-00000001") == [1, 2]
    assert not (tmp_path / "out" / "round-00000002" / "manifest.json").exists()
    assert states(table) == {1: ("COMPLETED" if noted else "PROCESSING", 1), 2: ("PROCESSING", 1)}
    assert [change[:4] for change in changes(table)] == [(one, 2, "FAILED", "PROCESSING") for one in ("m1", "m2")]


KILLS = [
    ("replay-selected", "after"),
    ("replay-frozen", "after"),
    ("history", "within"),
    ("lifecycle", "within"),
    ("replay-staging", "after"),
    ("replay-object", "after"),
    ("replay-ending", "after"),
    ("replay-manifest", "after"),
]


@pytest.mark.long
def test_killed_again_and_again_each_message_is_noted_and_sent_once(spark: SparkSession, tmp_path: Path) -> None:
    table = store(tmp_path / "store", failed(1), failed(2))
    for name, moment in KILLS:
        crash_run(spark, redelivery(table, tmp_path / "out"), name, moment)
    outcome = run_replay(Run.of(redelivery(table, tmp_path / "out", AT + MINUTE), spark, Silent()))
    assert outcome.complete
    assert sent(tmp_path / "out" / "round-00000001") == [1, 2]
    assert [path.parent.name for path in (tmp_path / "out").glob("*/manifest.json")] == ["round-00000001"]
    assert states(table) == {1: ("PROCESSING", 1), 2: ("PROCESSING", 1)}
    assert [change[:4] for change in changes(table)] == [(one, 2, "FAILED", "PROCESSING") for one in ("m1", "m2")]
