"""What others do to the tables of a store: each run goes on, and finds in them what was there."""

from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_core.store.schemas import TABLES
from support.readings import full_store, is_nobodys, readings


def test_tables_that_spark_has_rewritten_read_as_before(spark: SparkSession, tmp_path: Path) -> None:
    before = readings(full_store(tmp_path / "before"))
    store = full_store(tmp_path / "store", others=True)
    for name in TABLES:
        spark.sql(f"delete from delta.`{store.path(name)}` where {is_nobodys(name)}")
    assert readings(store) == before
    for name in TABLES:
        spark.sql(f"optimize delta.`{store.path(name)}`")
    assert readings(store) == before
