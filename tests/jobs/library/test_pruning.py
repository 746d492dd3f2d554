"""A read opens only files that can have its messages: the tests delete the others."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from messagestore import ordering, read_ranges
from messagestore.errors import StorageError
from messagestore.reader import Reader
from support.stores import Row, make_store, message


def batch(first: int, stream: str, **given: Any) -> list[Row]:
    return [
        message(n, message_id=f"m{n:02}", stream_name=stream, position=n, **given) for n in range(first, first + 10)
    ]


def store_without(folder: Path, batches: Sequence[Iterable[Row]], gone: Iterable[int]) -> Reader:
    """A store with one file per batch; the files of the batches in ``gone`` are deleted."""
    table = make_store(folder / "store", *batches)
    reader = Reader(table.uri)
    files = pa.table(DeltaTable(folder / "store" / "messages").get_add_actions(flatten=True))
    paths = files.sort_by("min.global_position")["path"].to_pylist()
    for number in gone:
        (folder / "store" / "messages" / paths[number]).unlink()
    return reader


def test_a_page_behind_a_cursor_opens_no_file_that_ends_before_it(tmp_path: Path) -> None:
    store = store_without(tmp_path, [batch(1, "a-1"), batch(11, "a-1"), batch(21, "a-1")], gone=[0, 1])

    assert [m.global_position for m in store.get_category_messages("a", 25)] == [25, 26, 27, 28, 29, 30]
    assert [m.position for m in store.get_stream_messages("a-1", 29)] == [29, 30]
    with pytest.raises(StorageError):
        list(store.get_category_messages("a", 20))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads combine few rows, as the files here are small."""
    monkeypatch.setattr(read_ranges, "FEW", 1)


def test_a_full_page_opens_no_file_behind_it(tmp_path: Path, few: None) -> None:
    store = store_without(tmp_path, [batch(1, "a-1"), batch(11, "a-1"), batch(21, "a-1")], gone=[2])

    assert [m.global_position for m in store.get_category_messages("a", 8, 5)] == [8, 9, 10, 11, 12]


def test_a_read_of_the_newest_messages_opens_no_older_file(tmp_path: Path, few: None) -> None:
    store = store_without(tmp_path, [batch(1, "a-1"), batch(11, "a-1"), batch(21, "a-1")], gone=[0, 1])

    assert [m.global_position for m in store.latest("a", 3)] == [28, 29, 30]
    last = store.get_last_stream_message("a-1")
    assert last.position == 30


READS: dict[str, Callable[[Reader], Iterable[Any]]] = {
    "a category": lambda store: store.get_category_messages("b"),
    "a category's newest": lambda store: store.latest("b", 100),
    "a stream": lambda store: store.get_stream_messages("b-1"),
    "a correlation": lambda store: store.load_for_correlation("saga-b"),
    "an id": lambda store: [store.get_message("m11")],
}


@pytest.mark.parametrize("name", READS)
def test_files_without_what_is_asked_for_are_not_opened(tmp_path: Path, name: str) -> None:
    batches = [batch(n, f"{s}-1", correlation_id=f"saga-{s}") for n, s in [(1, "a"), (11, "b"), (31, "c")]]
    store = store_without(tmp_path, batches, gone=[0, 2])

    found = [m.global_position for m in READS[name](store)]

    assert found == list(range(11, 12 if name == "an id" else 21))


def test_a_read_of_a_missing_stream_opens_no_file(tmp_path: Path) -> None:
    store = store_without(tmp_path, [batch(1, "a-1"), batch(11, "c-1")], gone=[0, 1])

    assert list(store.get_category_messages("b")) == []
    assert list(store.get_messages(21)) == []
    assert store.get_last_stream_message("b-1") is None


def test_a_position_beyond_all_numbers_is_behind_all(tmp_path: Path) -> None:
    store = store_without(tmp_path, [batch(1, "a-1")], gone=[0])

    assert list(store.get_category_messages("a", 10**18)) == []


def test_files_that_tell_nothing_are_read(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", batch(11, "a-1"), batch(1, "b-1"))
    properties = {"delta.dataSkippingStatsColumns": "status"}
    messages = DeltaTable(tmp_path / "store" / "messages")
    messages.alter.set_table_properties(properties)
    messages.optimize.compact()

    store = Reader(table.uri)

    assert [m.global_position for m in store.get_category_messages("a")] == list(range(11, 21))
    assert [m.global_position for m in store.get_messages(5, 10)] == list(range(5, 15))
    assert [m.global_position for m in store.latest(None, 2)] == [19, 20]


@pytest.mark.parametrize("group", [{}, {"consumer_group_member": 0, "consumer_group_size": 1}])
def test_more_than_memory_may_hold_is_read_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: dict[str, int]
) -> None:
    monkeypatch.setattr(ordering, "HELD_BYTES", 50_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spilled"))
    (tmp_path / "spilled").mkdir()
    rows = [message(n, stream_name=f"a-{n % 7}", position=n // 7, payload=b"%06d" % n * 100) for n in range(1, 3001)]
    store = Reader(make_store(tmp_path / "store", rows[::3], rows[1::3] + rows[2::3]).uri)

    found = list(store.get_category_messages("a", batch_size=-1, **group))

    assert [m.global_position for m in found] == list(range(1, 3001))
    assert [m.payload for m in found] == [row["payload"] for row in rows]
    assert list((tmp_path / "spilled").iterdir()) == []


def test_calls_at_one_version_read_the_end_of_a_file_once(tmp_path: Path) -> None:
    store = store_without(tmp_path, [batch(1, "a-1")], gone=[])
    found = list(store.get_category_messages("a"))
    (file,) = (tmp_path / "store" / "messages").glob("*/*.parquet")
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))

    assert list(store.get_category_messages("a")) == found
    with pytest.raises(StorageError):
        list(Reader(f"file://{tmp_path}/store").get_category_messages("a"))
