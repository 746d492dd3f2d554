"""Each source has its own record of what has been read."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from messagestore_core.contract.stores import Owner, Table
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.file_ends import NOT_READ
from messagestore_core.store.files import Batch, Range, ReadFiles, SourceFile, planned_batch
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def batch(number: int, name: str) -> Batch:
    file = SourceFile(f"file:///landing/{name}", 10, NOW)
    return Batch(number, NOW, (Range(file, 0, 10),))


def test_a_batch_that_was_cut_off_is_found_though_another_source_is_further_on(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    ReadFiles(HeldStore(uri), "old").write_down(batch(7, "a"))
    ReadFiles(HeldStore(uri), "new").write_down(batch(1, "b"))

    read = ReadFiles(HeldStore(uri), "new")

    assert read.last_batch == 1
    assert planned_batch(Store(uri), "new", 1) == batch(1, "b")


def test_a_file_that_another_source_read_may_have_dead_letters_already(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    ReadFiles(HeldStore(uri), "old").write_down(batch(1, "a"))

    assert ReadFiles(HeldStore(uri), "new").read_before(batch(1, "a")) == {"file:///landing/a"}
    assert ReadFiles(HeldStore(uri), "new").read_before(batch(1, "b")) == set()


def test_a_reopened_source_knows_the_same_batches_from_the_table(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    a, b = (SourceFile(f"file:///landing/{name}", 10, NOW) for name in "ab")
    read = ReadFiles(HeldStore(uri), "own")
    read.write_down(Batch(1, NOW, (Range(a, 0, 4),)))
    second = Batch(2, NOW, (Range(a, 4, 10), Range(b, 0, 10)))
    read.write_down(second)
    listed = pa.Table.from_pylist([asdict(a), asdict(b)])

    assert read.ends.of(listed).tolist() == ReadFiles(HeldStore(uri), "own").ends.of(listed).tolist() == [10, 10]
    read.take_out(second, {a, b})
    assert read.ends.of(listed).tolist() == ReadFiles(HeldStore(uri), "own").ends.of(listed).tolist() == [4, NOT_READ]
    assert read.read_before(second) == {a.uri, b.uri}
    assert (read.last_batch, planned_batch(Store(uri), "own", 2)) == (2, None)


def test_of_a_file_in_parts_the_table_tells_how_far_it_was_read(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    file = SourceFile("file:///landing/a.gz", 10, NOW)
    parts = (Range(file, 0, 3, unpacked_from=0, unpacked_to=40), Range(file, 3, 10, unpacked_from=40))
    read = ReadFiles(HeldStore(uri), "own")
    read.write_down(Batch(1, NOW, (Range(file, 0, 10),)))
    read.plan_anew(Batch(1, NOW, parts[:1]))

    listed = pa.Table.from_pylist([asdict(file)])
    assert read.ends.of(listed).tolist() == ReadFiles(HeldStore(uri), "own").ends.of(listed).tolist() == [3]
    assert read.planned(1) == Batch(1, NOW, parts[:1])
    assert [read.unpacked_end(part) for part in parts] == [0, 40]
    assert ReadFiles(HeldStore(uri), "other").unpacked_end(parts[1]) == 0
    read.write_down(Batch(2, NOW, parts[1:]))
    assert (read.ends.of(listed).tolist(), read.planned(2)) == ([10], Batch(2, NOW, parts[1:]))


def test_a_runs_first_plan_leaves_a_small_table_in_one_file_with_all_of_its_rows(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    for number, name in enumerate("abc", start=1):
        ReadFiles(HeldStore(uri), "own").write_down(batch(number, name))

    assert Store(uri).table("files").get_add_actions().num_rows == 1
    assert [planned_batch(Store(uri), "own", number) for number in (1, 2, 3)] == list(map(batch, (1, 2, 3), "abc"))


def test_a_plan_keeps_what_another_source_planned_since_it_was_read(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(HeldStore.of(Table(uri=uri, owner=Owner(namespace="default", name="orders")), Storage()))
    ReadFiles(HeldStore(uri), "old").write_down(batch(1, "a"))
    old, new = (ReadFiles(HeldStore(uri), source_id) for source_id in ("old", "new"))
    new.write_down(batch(1, "b"))
    old.write_down(batch(2, "c"))

    assert [planned_batch(Store(uri), "old", number) for number in (1, 2)] == [batch(1, "a"), batch(2, "c")]
    assert planned_batch(Store(uri), "new", 1) == batch(1, "b")
