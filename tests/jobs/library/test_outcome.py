"""What became of a message: by the tables, and quickly by the index of ids."""

import hashlib
import os
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore import id_index, versions
from messagestore.errors import StorageError
from messagestore.outcomes import Erased, NotSeen, Purged, SetAside, Stored
from messagestore.reader import Reader
from messagestore.writer import Writer
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.id_index import BLOCK, read_manifest
from messagestore_core.store.keyed import message_key
from messagestore_core.store.layout import INDEX, TOMBSTONE_KEY
from messagestore_core.store.objects import LARGEST_DOCUMENT
from messagestore_core.store.schemas import PURGED_IDS
from messagestore_core.store.tombstones import add_tombstones, made_key
from messagestore_jobs.index.store_index import StoreIndex
from support.stores import START, add_dead_letters, add_messages, add_rows, make_store, message, remove_rows

NO_SPARK = cast(SparkSession, None)
DAY = timedelta(days=1)
COUNT = 3 * BLOCK + 5


def test_an_outcome_tells_each_way_in_which_an_id_ended(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1), message(2)], remember_purged=DAY).uri
    held = HeldStore(uri, remember_purged=DAY)
    add_dead_letters(uri, [{"failed_at": START, "raw": b"x", "message_id": "m2", "detail": "why"}])
    add_dead_letters(uri, [{"failed_at": START, "raw": b"y", "message_id": "m1", "redriven_at": START}])
    add_tombstones(held, [("m3", 7)], START, "purge")
    hashed = bytes.fromhex(message_key(made_key(held), "m4"))[:16]
    row = {"message_key": hashed, "purged_at": START, "purged_date": START.date()}
    add_rows(held, "purged_ids", pa.Table.from_pylist([row, row], PURGED_IDS))

    store = Reader(uri)

    assert store.outcome("m1") == [Stored(1, 1, "RECEIVED")]
    assert store.outcome("m2") == [Stored(2, 2, "RECEIVED"), SetAside("Unparseable", "why", START)]
    assert store.outcome("m3") == [Erased(START)]
    assert store.outcome("m4") == [Purged(START)]
    assert store.outcome("it's") == [NotSeen()]


def test_a_key_that_cannot_be_read_is_an_error_of_storage(tmp_path: Path) -> None:
    store = Reader(make_store(tmp_path / "store", [message(1)]).uri)
    (tmp_path / "store" / TOMBSTONE_KEY).touch()
    os.truncate(tmp_path / "store" / TOMBSTONE_KEY, LARGEST_DOCUMENT + 1)

    with pytest.raises(StorageError, match="find out who wrote it"):
        store.outcome("m2")
    with pytest.raises(StorageError, match="find out who wrote it"):
        store.stream_version("order-2")


@pytest.fixture
def indexed(tmp_path: Path) -> str:
    """Messages of three days that the index knows, one of which has left, and one that it doesn't know yet."""
    days = [[message(n, inserted_at=START + day * DAY) for n in range(1 + day, COUNT, 3)] for day in range(3)]
    uri = make_store(tmp_path / "store", *days).uri
    remove_rows(uri, "messages", "message_id = 'm7'")
    StoreIndex(NO_SPARK, HeldStore(uri)).save()
    add_messages(uri, [message(COUNT, inserted_at=START + 2 * DAY)])
    return uri


def hints(uri: str, *names: str) -> list[id_index.Hint | None]:
    store = Store(uri)
    objects, table_id = store.objects(INDEX), str(store.table("messages").metadata().id)
    return [id_index.looked_up(objects, table_id, name) for name in names]


def test_the_index_knows_when_a_message_was_inserted(indexed: str) -> None:
    found = hints(indexed, *(f"m{n}" for n in range(1, COUNT + 1)))

    assert [n for n, one in enumerate(found, 1) if one is None] == [7, COUNT]
    assert {one.inserted_at for one in found if one} == {
        (int((START + day * DAY).timestamp()) * 1_000_000,) for day in range(3)
    }


def test_a_message_is_found_with_the_index(indexed: str, searched: list[str]) -> None:
    store = Reader(indexed)
    found = [store.get_message(f"m{n}") for n in (1, 2, 3, 7, BLOCK, COUNT - 1, COUNT)]

    assert [one and one.global_position for one in found] == [1, 2, 3, None, BLOCK, COUNT - 1, COUNT]
    assert searched == ["m7", f"m{COUNT}"]


def test_an_outcome_names_a_message_that_came_again_after_the_index_was_written(indexed: str) -> None:
    add_messages(indexed, [message(COUNT + 1, message_id="m1", inserted_at=START + 2 * DAY)])
    store = Reader(indexed)

    first = store.get_message("m1")

    assert first is not None
    assert first.global_position == 1
    assert [one.global_position for one in store.outcome("m1") if isinstance(one, Stored)] == [1, COUNT + 1]


def test_a_message_is_found_with_an_index_that_is_torn_or_of_another_table(indexed: str) -> None:
    manifest = read_manifest(Store(indexed).objects(INDEX))
    for info in manifest.ids:
        path = Path(indexed.removeprefix("file://")) / INDEX / info.name
        content = bytearray(path.read_bytes())
        for at in range(0, info.entry_bytes, BLOCK * 24):
            content[at] ^= 1
        path.write_bytes(content)

    assert hints(indexed, "m1") == [None]
    assert id_index.looked_up(Store(indexed).objects(INDEX), "another", "m1") is None
    assert Reader(indexed).outcome("m1") == [Stored(1, 1, "RECEIVED")]


def test_an_id_is_looked_up_with_few_small_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HeldStore(make_store(tmp_path / "store", []).uri)
    count = 300_000
    hashes = sorted(hashlib.sha256(b"%d" % n).digest()[:16] for n in range(count))
    info, objects = written_run(store, hashes)
    read: list[int] = []
    run = id_index._Run(objects, info)
    monkeypatch.setattr(run, "_file", Counted(run._file, read))

    high, low = int.from_bytes(hashes[777][:8]), int.from_bytes(hashes[777][8:])

    assert list(run.values(high, low)) == [777]
    assert len(read) == 3
    assert sum(read) < 10_000


def written_run(store: HeldStore, hashes: list[bytes]) -> tuple[Any, Any]:
    import numpy as np

    from messagestore_jobs.index.entries import entries_of
    from messagestore_jobs.index.keys import Keys
    from messagestore_jobs.index.sorted_runs import write_sorted_run

    entries = entries_of(Keys.of_bytes(b"".join(hashes)), np.arange(len(hashes)))
    objects = store.objects(INDEX)
    return write_sorted_run(objects, f"ids-{'0' * 32}", [entries], len(hashes)), objects


class Counted:
    """A file that notes how many bytes each read takes."""

    def __init__(self, file: Any, read: list[int]) -> None:
        self._file, self._read = file, read

    def __enter__(self) -> None:
        self._file.__enter__()

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read_at(self, size: int, begin: int) -> Any:
        self._read.append(size)
        return self._file.read_at(size, begin)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids that were searched in the whole table."""
    ids: list[str] = []
    pages = versions.Snapshot.pages

    def noted(self: Any, read: Any) -> Any:
        ids.append(read.equal["message_id"])
        return pages(self, read)

    monkeypatch.setattr(versions.Snapshot, "pages", noted)
    return ids


def test_a_writer_waits_until_its_message_is_stored(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    writer = Writer(f"file://{tmp_path}/landing")
    writer.write_message("m2", "order-1", "Placed", {})
    stored = Timer(0.7, add_messages, (uri, [message(2)]))
    stored.start()

    found = writer.wait("m2", timedelta(seconds=60), store=uri)

    stored.join()
    assert found == [Stored(2, 2, "RECEIVED")]
    assert len(list((tmp_path / "landing").iterdir())) == 1


def test_a_writer_waits_for_some_time_only(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    with Writer(f"file://{tmp_path}/landing") as writer, Reader(uri) as reader:
        assert writer.wait("m2", timedelta(0), store=reader) == [NotSeen()]
        assert writer.wait("m1", timedelta(0), store=reader) == [Stored(1, 1, "RECEIVED")]
