"""The cursor of a subscription on a real S3 server: each write is conditional."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.store.cursors import Cursor, CursorObject
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_jobs.session import using
from support.lost_answers import losing
from support.objectstore import ObjectStore


def cursor(position: int, run: str) -> Cursor:
    return Cursor(store="id", subscription="shop/orders", global_position=position, run=run, job="shop.orders")


def test_of_two_runs_the_one_that_wrote_last_goes_on(spark: SparkSession, object_store: ObjectStore) -> None:
    uri = object_store.make_bucket("cursors")
    with using([object_store.entry("cursors")], spark) as storage:
        first, second = (CursorObject(HeldStore(uri, storage=storage), "shop", "orders", "id") for _ in range(2))
        assert (first.read(), second.read()) == (None, None)
        first.write(cursor(1, "run-1"))
        with pytest.raises(FencedError):
            second.write(cursor(2, "run-2"))
        assert second.read() == cursor(1, "run-1")
        second.write(cursor(2, "run-2"))
        with pytest.raises(FencedError):
            first.write(cursor(3, "run-1"))
        second.write(cursor(4, "run-2"))
        assert first.read() == cursor(4, "run-2")
        assert object_store.names("cursors") == ["_cursors/shop.orders/cursor.json"]


def test_a_write_whose_answer_was_lost_counts(spark: SparkSession, object_store: ObjectStore, tmp_path: Path) -> None:
    uri = object_store.make_bucket("unheard-cursors")
    with losing(object_store.endpoint, tmp_path / "lost") as lossy:
        entry = object_store.entry("unheard-cursors").model_copy(update={"endpoint": lossy.endpoint})
        with using([entry], spark) as storage:
            own = CursorObject(HeldStore(uri, storage=storage), "shop", "orders", "id")
            assert own.read() is None
            own.write(cursor(1, "run-1"))
            lossy.forget()
            own.write(cursor(2, "run-1"))
            assert own.read() == cursor(2, "run-1")
            assert lossy.lost()
