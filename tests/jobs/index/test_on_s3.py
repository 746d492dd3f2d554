"""Sorted runs of entries on object storage, read by few blocks, or whole."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.index.entries import entries_of
from messagestore_jobs.index.keys import Hasher
from messagestore_jobs.index.sorted_runs import StoredRun, TornIndexError, write_sorted_run
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.session import using
from support.indexes import Ingested, day
from support.objectstore import ObjectStore
from support.stores import OWNER

NAMES = [f"m{number}" for number in range(200_000)]
EVERY = Hasher(b"key").keys(NAMES)
RUN = "ids-" + "0" * 32


@pytest.fixture
def storage(spark: SparkSession, object_store: ObjectStore) -> Iterator[Storage]:
    object_store.make_bucket("indexes")
    with using([object_store.entry("indexes")], spark) as storage:
        yield storage


@pytest.fixture
def objects(storage: Storage) -> Objects:
    return Objects("s3a://indexes/store/_index", storage)


@pytest.fixture
def run(objects: Objects, tmp_path: Path) -> StoredRun:
    info = write_sorted_run(objects, RUN, [entries_of(EVERY, np.arange(len(NAMES)))], len(NAMES))
    assert info is not None
    return StoredRun(objects, info, tmp_path)


def test_few_hashes_are_found_by_few_blocks(run: StoredRun) -> None:
    some = EVERY.where(np.arange(len(NAMES)) % 20_000 == 7)
    assert sorted(run.find(some).values.tolist()) == list(range(7, len(NAMES), 20_000))
    assert run._fetched < run.info.entry_bytes // 4


def test_many_hashes_are_found_by_reading_the_whole_run(run: StoredRun) -> None:
    found = run.find(EVERY)
    assert (found.indices == found.values).all()
    assert sorted(found.values.tolist()) == list(range(len(NAMES)))
    assert len(run.between(0, (1 << 64) - 1)) == len(NAMES)


def test_a_range_is_read_from_where_it_lies(run: StoredRun) -> None:
    part = run.between(0, (1 << 59) - 1)
    assert len(part) == (EVERY.high < 1 << 59).sum()


def test_a_changed_byte_of_an_index_is_noticed(objects: Objects, run: StoredRun, tmp_path: Path) -> None:
    content = bytearray(objects.read(RUN) or b"")
    content[100] ^= 1
    objects.write(RUN, bytes(content))
    with pytest.raises(TornIndexError):
        StoredRun(objects, run.info, tmp_path).find(EVERY)


def test_an_object_that_is_deleted_while_it_is_read_is_noticed(objects: Objects, run: StoredRun) -> None:
    run.find(EVERY.where(np.arange(len(NAMES)) == 7))
    objects.delete(RUN)
    with pytest.raises(TornIndexError):
        run.find(EVERY.where(np.arange(len(NAMES)) == 100_007))


def test_an_index_is_kept_on_object_storage(spark: SparkSession, storage: Storage) -> None:
    store = HeldStore("s3a://indexes/other", storage, owner=OWNER)
    open_folder(store)
    first = Ingested.opened(spark, store)
    first.batch(NAMES[:50], ["a-1"] * 50, day(0))
    first.index.save()
    first.batch(NAMES[50:60], ["a-2"] * 10, day(1))
    again = Ingested(spark, store, StoreIndex(spark, store))
    assert again.says(NAMES[:80]) == set(NAMES[:60])
