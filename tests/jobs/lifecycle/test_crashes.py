"""A run is cut off at each external write of updates and expiry; the next runs end with the same store."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Retry, UpdateCounts
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import HISTORY, TABLES
from support.crash import crash_run
from support.external_writes import observing, unheard
from support.ingests import START, lines, record
from support.kept import Kept
from support.lifecycles import Updated, update
from support.long import few
from support.replays import Crash

VARYING = {"inserted_at", "inserted_date", "failed_at", "at", "run", "updated_at", "next_retry_at", "received_at"}
VARYING |= {"table_version"}
HOUR = timedelta(hours=1)
WRITES = {
    "plan": 2,
    "dead-letters": 3,
    "pending-updates": 1,
    "messages": 1,
    "pending-taken": 1,
    "history": 3,
    "lifecycle": 2,
    "pending-dropped": 1,
    "history-begun": 1,
    "expire": 1,
    "ended": 1,
}
"""The writes of the second run, and how often; the first run has its own writes."""


def begin(stream: Updated) -> None:
    """Run with messages and updates first: one update has waited for a day by then, two precede their message."""
    stream.retry = Retry(max_retries=0, set_aside=True)
    due = (START + timedelta(days=1)).isoformat()
    stream.arrive("a.jsonl", lines(message("m1"), message("m2"), message("m3", expiresAt=due)))
    stream.tell(update("m1", "PROCESSING"), update("late", "PROCESSING"), update("never", "COMPLETED"))
    stream.run()
    stream.arrive("b.jsonl", lines(message("late"), message("m4")))
    stream.tell(update("m1", "COMPLETED", result=1), b"garbage", update("soon", "FAILED"))
    stream.tell(update("m2", "FAILED", error="e"), update("m1", "FAILED"), update("late", "COMPLETED"))


def message(message_id: str, **fields: Any) -> bytes:
    return record(message_id, time="2026-01-05T11:00:00Z", **fields)


def contents(stream: Updated) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The store's whole content, without times, run names and its own folder."""
    tables = {}
    for name in (*TABLES, HISTORY):
        rows = Store(stream.table.uri).table(name).to_pyarrow_table().to_pylist()
        plain = [{key: value for key, value in row.items() if key not in VARYING} for row in rows]
        tables[name] = sorted(repr(row).replace(str(stream.folder), "") for row in plain)
    return tables, last_note(Store(stream.table.uri)).updates.model_dump()


def second(stream: Updated) -> Any:
    return stream.document(START + timedelta(days=1), lifecycle=stream.lifecycle(), retry=stream.retry)


@pytest.fixture(scope="module")
def uninterrupted(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[tuple[dict[str, list[str]], dict[str, int]], Counter[str]]:
    stream = Updated(spark, tmp_path_factory.mktemp("uninterrupted"))
    begin(stream)
    writes: list[str] = []
    with observing(lambda name, moment: writes.append(name) if moment == "after" else None):
        stream.run(START + timedelta(days=1))
    states = {name: status for name, (status, _) in stream.states().items()}
    assert states == {
        "m1": "COMPLETED",
        "m2": "FAILED",
        "m3": "EXPIRED",
        "late": "COMPLETED",
        "m4": "RECEIVED",
    }
    assert sorted(letter["reason"] for letter in stream.dead_letters()) == [
        "RetriesExhausted",
        "UnknownMessage",
        "Unparseable",
    ]
    assert stream.pending() == [("soon", "FAILED")]
    return contents(stream), Counter(writes)


def test_the_crashes_below_cover_every_write(uninterrupted: tuple[Any, Counter[str]]) -> None:
    assert uninterrupted[1] == WRITES


def ends_the_same(stream: Updated, uninterrupted: tuple[Any, Counter[str]]) -> bool:
    stream.run(START + timedelta(days=1) + HOUR)
    assert contents(stream) == uninterrupted[0]
    stream.run(START + timedelta(days=1) + 2 * HOUR)
    return contents(stream) == uninterrupted[0]


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Updated]:
    stream = Updated(spark, tmp_path_factory.mktemp("begun"))
    begin(stream)
    return Kept.of(stream, tmp_path_factory.mktemp("kept") / "begun")


# The state after one write is that before the next; the last write is "expire".
CRASHES = [*((name, "before") for name in WRITES), ("expire", "after")]


@pytest.mark.parametrize(("name", "moment"), few(CRASHES, ("expire", "before")))
def test_a_second_run_that_breaks_off_at_any_write_ends_with_the_same_store(
    begun: Kept[Updated], name: str, moment: str, uninterrupted: tuple[Any, Counter[str]]
) -> None:
    stream = begun.again()
    left = [WRITES[name]]

    def crash(at: str, when: str) -> None:
        left[0] -= (at, when) == (name, moment)
        if left[0] == 0:
            raise Crash

    with observing(crash), pytest.raises(Crash):
        stream.run(START + timedelta(days=1))
    assert ends_the_same(stream, uninterrupted)


@pytest.mark.long
def test_a_run_with_updates_ends_with_the_same_store_whichever_answer_is_lost(
    begun: Kept[Updated], uninterrupted: tuple[Any, Counter[str]]
) -> None:
    stream = begun.again()
    _, lost = unheard(lambda: stream.run(START + timedelta(days=1)))
    assert lost >= {*WRITES, "history-withdrawn"}
    assert ends_the_same(stream, uninterrupted)


KILLS = [
    ("messages", "after"),
    ("pending-taken", "after"),
    ("dead-letters", "after"),
    ("history", "after"),
    ("history-withdrawn", "after"),
    ("lifecycle", "after"),
    ("pending-dropped", "after"),
    ("plan", "after"),
    ("pending-updates", "after"),
    ("history", "within"),
    ("lifecycle", "within"),
    ("history-begun", "after"),
    ("expire", "before"),
    ("expire", "after"),
]
"""In the order of the run, each in the next process: first pending updates meet their message, then a batch follows."""


@pytest.mark.long
def test_a_run_with_updates_that_is_killed_at_every_write_ends_with_the_same_store(
    spark: SparkSession, tmp_path: Path, uninterrupted: tuple[Any, Counter[str]]
) -> None:
    stream = Updated(spark, tmp_path)
    begin(stream)
    document = second(stream)
    for name, moment in KILLS:
        crash_run(spark, document, name, moment)
    assert ends_the_same(stream, uninterrupted)


def test_an_update_that_a_failed_try_let_wait_goes_with_its_file(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    gone = stream.tell(update("m1", "COMPLETED"))

    def crash(at: str, when: str) -> None:
        if (at, when) == ("pending-updates", "after"):
            raise Crash

    with observing(crash), pytest.raises(Crash):
        stream.run()
    gone.unlink()
    stream.arrive("a.jsonl", lines(message("m1")))
    told = stream.told()
    assert (stream.states(), stream.pending()) == ({"m1": ("RECEIVED", 0)}, [])
    assert told.totals == UpdateCounts()
