"""The history of a message, read without Spark."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from messagestore.reader import HistoryRow, Reader
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.history import history_table, write_history
from messagestore_core.store.schemas import HISTORY_ROWS
from support.stores import START, Row, add_history, make_store, message, remove_rows

DAY = timedelta(days=1)


@pytest.fixture
def rows() -> list[Row]:
    """A message of each of three days, and another one with the id of the first."""
    days = [message(n, inserted_at=START + n * DAY) for n in range(1, 4)]
    return [*days, message(4, inserted_at=START + 3 * DAY, message_id="m1")]


@pytest.fixture
def uri(tmp_path: Path, rows: list[Row]) -> str:
    return make_store(tmp_path / "store", rows).uri


def test_a_message_has_no_history_while_nothing_has_changed(uri: str) -> None:
    assert Reader(uri).history("m1") == []
    assert Reader(uri).history("nobody") == []


def test_the_changes_of_a_message_come_in_order(uri: str, rows: list[Row]) -> None:
    add_history(uri, rows[:2], ("updates", 1), error="why", next_retry_at=START + DAY)
    add_history(uri, rows[:1], ("lifecycle-expired", 1), from_status="FAILED", to_status="EXPIRED", attempt=2)
    add_history(uri, rows[3:], ("updates", 2), to_status="COMPLETED")

    failed = HistoryRow(
        message_id="m1", global_position=1, at=START, attempt=1, from_status="RECEIVED", to_status="FAILED",
        next_retry_at=START + DAY, error="why", run="run-1",
    )  # fmt: skip
    assert Reader(uri).history("m1")[0] == failed
    assert [(row.global_position, row.to_status) for row in Reader(uri).history("m1")] == [
        (1, "FAILED"),
        (1, "EXPIRED"),
        (4, "COMPLETED"),
    ]


def test_changes_of_a_step_that_is_not_committed_are_not_seen(uri: str, rows: list[Row]) -> None:
    add_history(uri, rows[:1], ("updates", 1))
    before = Reader(uri, version=Reader(uri).version)
    pending(uri, rows[0], ("updates", 2))
    pending(uri, rows[0], ("others", 1))
    assert len(Reader(uri).history("m1")) == 1

    add_history(uri, rows[:1], ("updates", 2))
    assert len(Reader(uri).history("m1")) == 2
    assert len(before.history("m1")) == 1


def pending(uri: str, row: Row, step: tuple[str, int]) -> None:
    kept = {name: row[name] for name in ("message_id", "global_position", "inserted_date")}
    change = {"at": START, "attempt": 1, "from_status": "RECEIVED", "to_status": "PROCESSING", "run": "r", "row": 0}
    schema = pa.schema([field for field in HISTORY_ROWS if field.name not in ("step_id", "step", "table_version")])
    write_history(HeldStore(uri), pa.Table.from_pylist([kept | change], schema), step)


def test_only_the_days_of_its_messages_are_read(uri: str, rows: list[Row]) -> None:
    add_history(uri, rows[:3])
    table = history_table(HeldStore(uri))
    (day,) = [path for path in table.file_uris() if str(rows[1]["inserted_date"]) in path]
    Path(day.removeprefix("file://")).unlink()
    assert len(Reader(uri).history("m1")) == len(Reader(uri).history("m3")) == 1


def test_a_message_that_is_gone_has_none(uri: str, rows: list[Row]) -> None:
    add_history(uri, rows[:3])
    remove_rows(uri, "messages", "global_position = 2")
    assert Reader(uri).history("m2") == []
