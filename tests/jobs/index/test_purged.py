"""The index remembers the purged ids that the table has, whatever happens to either."""

import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.id_index import read_manifest
from messagestore_core.store.keyed import message_key
from messagestore_core.store.layout import INDEX
from messagestore_core.store.objects import local_path
from messagestore_core.store.schemas import PURGED_IDS, REMEMBERED
from messagestore_core.store.tombstones import forget_purged
from messagestore_jobs.index import changes, read
from messagestore_jobs.index.keys import HASH_BYTES, Hasher
from messagestore_jobs.index.store_index import StoreIndex
from support.external_writes import observing
from support.indexes import day
from support.stores import add_rows, make_store

pytestmark = pytest.mark.usefixtures("index_merged_often")

NO_SPARK = cast(SparkSession, None)
KEY = b"key of the tombstones"
IDS = [f"m{n}" for n in range(8)]
REMEMBER = timedelta(days=2)

What = Literal["purge", "forget", "compact", "save", "merge", "reopen", "torn", "lost", "made anew", "rolled back"]


class Step(NamedTuple):
    what: What
    ids: list[int]


steps = st.lists(
    st.builds(Step, st.sampled_from(["purge", *What.__args__]), st.lists(st.integers(0, 7), max_size=4)),
    min_size=4,
    max_size=12,
)


def made(folder: Path) -> HeldStore:
    table = make_store(folder, [], remember_purged=REMEMBER)
    return HeldStore(table.uri, remember_purged=REMEMBER)


def again(store: HeldStore) -> HeldStore:
    """The store as another run opens it, which follows no changes by others."""
    return HeldStore(store.uri, remember_purged=REMEMBER)


def purge(store: HeldStore, ids: list[str], at: datetime) -> None:
    add(store, [hash_of(name) for name in ids], at)


def add(store: HeldStore, keys: list[bytes], at: datetime) -> None:
    add_rows(store, REMEMBERED, pa.table([keys, [at] * len(keys), [at.date()] * len(keys)], schema=PURGED_IDS))


def hash_of(name: str) -> bytes:
    return bytes.fromhex(message_key(KEY, name))[:HASH_BYTES]


def says(index: StoreIndex, at: datetime) -> set[str]:
    found = index.remembers(Hasher(KEY).keys(IDS), at)
    return {name for name, there in zip(IDS, found.tolist(), strict=True) if there}


def holds(store: HeldStore, at: datetime) -> set[str]:
    rows = store.table(REMEMBERED).to_pyarrow_table().to_pylist()
    keys = {row["message_key"] for row in rows if at < row["purged_at"] + REMEMBER}
    return {name for name in IDS if hash_of(name) in keys}


def take(index: StoreIndex, store: HeldStore, step: Step, at: datetime) -> StoreIndex:
    if step.what == "save":
        index.save()
        return index
    if step.what == "merge":
        # A maintenance of the same store, beside the run's own index.
        StoreIndex(NO_SPARK, store).merge()
        return index
    if step.what in ("made anew", "rolled back"):
        # A run that is under way refuses them.
        index.close()
        change(store, step, at)
        return StoreIndex(NO_SPARK, again(store))
    if step.what in ("torn", "lost"):
        damage(store, step.what)
    else:
        change(store, step, at)
    index.close()
    return StoreIndex(NO_SPARK, again(store))


def change(store: HeldStore, step: Step, at: datetime) -> None:
    table = store.table(REMEMBERED)
    match step.what:
        case "purge":
            purge(store, [IDS[i] for i in step.ids], at)
        case "forget":
            forget_purged(store, at)
        case "compact":
            table.optimize.compact()
        case "rolled back" if table.version():
            table.restore(table.version() - 1)
        case "made anew":
            write_deltalake(table, table.to_pyarrow_table().slice(1), mode="overwrite")


def damage(store: HeldStore, what: What) -> None:
    for path in sorted(Path(local_path(store.uri), INDEX).glob("purged-*"))[:1]:
        if what == "lost":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-9])


@given(steps)
@settings(max_examples=15)
def test_an_index_remembers_what_the_table_has(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = made(Path(folder, "store"))
        index = StoreIndex(NO_SPARK, store)
        for number, step in enumerate(history):
            at = day(0) + number * timedelta(hours=9)
            index = take(index, again(store), step, at)
            assert says(index, at) == holds(again(store), at)


def test_many_ids_are_read_by_spark_and_old_ones_dropped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FEW_ROWS", 0)
    monkeypatch.setattr(read, "_ROWS_A_PART", 3)
    store = made(tmp_path / "store")
    purge(store, IDS[:3], day(0))
    StoreIndex(spark, store)
    purge(store, IDS[2:], day(1))
    assert says(StoreIndex(spark, store), day(1)) == set(IDS)
    # Until runs are merged, the id that was purged twice is there twice.
    assert sum(counts(store)) in (8, 9)
    StoreIndex(spark, store).merge()
    # It counts from its last purge.
    assert counts(store) == [8]
    purge(store, IDS[:1], day(3))
    forget_purged(store, day(3))
    StoreIndex(spark, store).merge()
    assert says(StoreIndex(spark, store), day(2)) == {"m0", *IDS[2:]}
    forget_purged(store, day(30))
    StoreIndex(spark, store).save()
    assert counts(store) == []


def counts(store: HeldStore) -> list[int]:
    return [one.count for one in read_manifest(store.objects(INDEX)).purged]


@pytest.mark.parametrize("name", ["index", "index-manifest", "index-superseded"])
def test_a_run_killed_as_it_writes_leaves_an_index_that_is_right(tmp_path: Path, name: str) -> None:
    store = made(tmp_path / "store")
    purge(store, IDS[:5], day(0))
    StoreIndex(NO_SPARK, store).save()
    purge(store, IDS[5:], day(1))

    def kill(at: str, moment: str) -> None:
        if (at, moment) == (name, "before"):
            raise InterruptedError

    with observing(kill), pytest.raises(InterruptedError):
        StoreIndex(NO_SPARK, store).save()
    assert says(StoreIndex(NO_SPARK, store), day(1)) == set(IDS)


def test_opening_the_index_reads_at_most_1_6_bytes_for_each_purged_id(tmp_path: Path) -> None:
    store, random = made(tmp_path / "store"), Random(1)
    add(store, [random.randbytes(HASH_BYTES) for _ in range(100_000)], day(0))
    StoreIndex(NO_SPARK, store).save()
    (run,) = read_manifest(store.objects(INDEX)).purged
    assert (run.bytes - run.entry_bytes) / run.count <= 1.6
