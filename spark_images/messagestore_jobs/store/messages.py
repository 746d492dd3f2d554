"""Reads and commits of the ``messages`` table by Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import with_epoch
from messagestore_jobs.store.history import CommitNote, committed_batch
from messagestore_jobs.store.objects import join

_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


def read_messages(spark: SparkSession, uri: str, version: int | None = None) -> DataFrame:
    """The messages of a store, now or at a table version."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(join(uri, "messages"))


def messages_table(spark: SparkSession, uri: str) -> DeltaTable:
    """For deletes, updates and merges; wrap them in :func:`committing`."""
    return DeltaTable.forPath(spark, join(uri, "messages"))


def append_messages(
    spark: SparkSession, uri: str, rows: DataFrame, note: CommitNote, batch: tuple[str, int], compression: str
) -> None:
    """Append rows in one commit that carries ``note``, also where there are none.

    Args:
        batch: source id and number; one that is in the table already is passed over.
        compression: None or Zstd.
    """
    spark.conf.set("spark.sql.parquet.compression.codec", "uncompressed" if compression == "None" else "zstd")
    source_id, number = batch
    if committed_batch(uri, source_id) >= number:
        return
    commit = spark._jvm.dev.messagestore.spark.BatchCommit  # type: ignore[union-attr]
    with external_write("messages"):
        commit.append(rows._jdf, join(uri, "messages"), source_id, number, with_epoch(uri, note).json_text())


@contextmanager
def committing(spark: SparkSession, name: str, note: CommitNote) -> Iterator[None]:
    """Every commit on ``messages`` in the block is an external write ``name`` and carries ``note``."""
    spark.conf.set(_NOTE, note.json_text())
    try:
        with external_write(name):
            yield
    finally:
        spark.conf.unset(_NOTE)
