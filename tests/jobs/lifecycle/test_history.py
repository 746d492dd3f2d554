"""The history of messages: one row for each change that was committed."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Retry
from messagestore_core.store.handle import Store
from messagestore_core.store.history import history_table
from support.external_writes import observing
from support.ingests import START, Row, lines, record
from support.lifecycles import Updated, update
from support.long import few
from support.replays import Crash

HOUR = timedelta(hours=1)
FIRST = [
    ("m1", 1, "RECEIVED", "PROCESSING", None),
    ("m1", 1, "PROCESSING", "FAILED", "why"),
    ("m2", 1, "RECEIVED", "COMPLETED", None),
]


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Updated:
    stream = Updated(spark, tmp_path)
    due = (START + 2 * HOUR).isoformat()
    stream.arrive("a.jsonl", lines(record("m1"), record("m2"), record("m3", expiresAt=due)))
    return stream


def told(stream: Updated) -> list[tuple[str, int, str, str, str | None]]:
    return [
        (row["message_id"], row["attempt"], row["from_status"], row["to_status"], row["error"])
        for row in stream.history()
    ]


def begin(stream: Updated) -> None:
    stream.tell(update("m1", "PROCESSING"), update("m1", "FAILED", error="why"), update("m2", "COMPLETED"))
    stream.tell(update("m2", "PROCESSING"), update("nobody", "FAILED"))


def test_a_store_has_no_history_while_nothing_has_changed(stream: Updated) -> None:
    stream.run()
    assert history_table(Store(stream.table.uri)) is None


def test_each_update_that_is_applied_has_a_row(stream: Updated) -> None:
    begin(stream)
    stream.run()
    assert told(stream) == FIRST
    failed = stream.history()[1]
    message = stream.message("m1")
    assert failed == {
        "table_version": failed["table_version"],
        "message_id": "m1",
        "global_position": message["global_position"],
        "inserted_date": message["inserted_date"],
        "at": START,
        "attempt": 1,
        "from_status": "PROCESSING",
        "to_status": "FAILED",
        "next_retry_at": message["next_retry_at"],
        "error": "why",
        "run": "run-1",
        "step_id": "updates",
        "step": 1,
        "row": 1,
    }


def test_an_update_that_waited_an_expiry_and_a_timeout_have_rows(stream: Updated) -> None:
    stream.processing_timeout = HOUR
    stream.tell(update("late", "PROCESSING"), update("m1", "PROCESSING"))
    stream.run()
    stream.arrive("b.jsonl", lines(record("late")))
    stream.run(START + HOUR)
    stream.run(START + 2 * HOUR)
    words = "no update came within 3600 seconds"
    assert told(stream) == [
        ("m1", 1, "RECEIVED", "PROCESSING", None),
        ("late", 1, "RECEIVED", "PROCESSING", None),
        ("m1", 1, "PROCESSING", "FAILED", words),
        ("m3", 1, "RECEIVED", "EXPIRED", None),
        ("late", 1, "PROCESSING", "FAILED", words),
    ]


def test_a_store_that_keeps_no_history_gets_none(stream: Updated) -> None:
    stream.keeps_history = False
    begin(stream)
    stream.run()
    stream.run(START + 2 * HOUR)
    assert stream.message("m3")["status"] == "EXPIRED"
    assert history_table(Store(stream.table.uri)) is None


def crashing(at: tuple[str, str]) -> Callable[[str, str], None]:
    def crash(name: str, when: str) -> None:
        if (name, when) == at:
            raise Crash

    return crash


def cut_off(stream: Updated, at: tuple[str, str]) -> None:
    with observing(crashing(at)), pytest.raises(Crash):
        stream.run(START + 2 * HOUR)


POINTS = [
    (name, moment) for name in ("create-history", "history", "lifecycle", "expire") for moment in ("before", "after")
]


@pytest.mark.parametrize(("name", "moment"), few(POINTS, ("history", "after")))
def test_a_step_that_is_repeated_has_its_rows_once(stream: Updated, name: str, moment: str) -> None:
    stream.run()
    begin(stream)
    cut_off(stream, (name, moment))
    cut_off_again(stream)
    stream.run(START + 2 * HOUR)
    expired = ("m3", 1, "RECEIVED", "EXPIRED", None)
    assert sorted(told(stream), key=repr) == sorted([*FIRST, expired], key=repr)


def cut_off_again(stream: Updated) -> None:
    """If an earlier try has written rows: once between their removal and the new ones."""
    with suppress(Crash), observing(crashing(("history-withdrawn", "after"))):
        stream.run(START + 2 * HOUR)


def test_history_rows_of_a_try_that_broke_off_are_removed_when_history_is_disabled(stream: Updated) -> None:
    begin(stream)
    cut_off(stream, ("history", "after"))
    assert told(stream) == FIRST
    stream.keeps_history = False
    stream.run(START + HOUR)
    assert told(stream) == []


def test_retries_have_rows_for_each_attempt(stream: Updated) -> None:
    stream.retry = Retry(max_retries=1)
    stream.tell(update("m1", "FAILED", error="one"))
    stream.run()
    stream.tell(update("m1", "FAILED", attempt=2, error="two"), update("m1", "RETRY"))
    stream.run(START + HOUR)
    assert told(stream) == [
        ("m1", 1, "RECEIVED", "FAILED", "one"),
        ("m1", 2, "FAILED", "FAILED", "two"),
        ("m1", 2, "FAILED", "FAILED", None),
    ]
    rows: list[Row] = stream.history()
    assert [row["next_retry_at"] for row in rows] == [START + timedelta(minutes=2), None, START + HOUR]
