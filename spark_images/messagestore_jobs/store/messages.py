"""Reads and commits of the ``messages`` table by Spark."""

from collections.abc import Iterator
from contextlib import contextmanager

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import with_epoch
from messagestore_jobs.store.history import CommitNote, committed_batch
from messagestore_jobs.store.objects import join
from messagestore_jobs.store.tables import read_table, refuse_foreign_to_spark, table_to_change

MERGE = {
    # The rows are plain files that nobody changes: no copy of them is needed for a second look.
    "spark.databricks.delta.merge.materializeSource": "none",
    # A file that loses some rows is written as it was, not dealt out anew over all of its day.
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "false",
}
"""Settings under which rows are merged away, or changed."""
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


def read_messages(spark: SparkSession, uri: str, version: int | None = None) -> DataFrame:
    """The messages of a store, now or at a table version."""
    return read_table(spark, uri, "messages", version)


def messages_table(spark: SparkSession, uri: str) -> DeltaTable:
    """For deletes, updates and merges; wrap them in :func:`committing`."""
    return table_to_change(spark, uri, "messages")


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
    says = refuse_foreign_to_spark(spark, uri, "messages")
    commit = spark._jvm.dev.messagestore.spark.BatchCommit  # type: ignore[union-attr]
    try:
        with external_write("messages"):
            commit.append(rows._jdf, join(uri, "messages"), source_id, number, with_epoch(uri, note).json_text(), says)
    except Py4JJavaError:
        # Where that is why, its words are better.
        refuse_foreign_to_spark(spark, uri, "messages")
        raise


@contextmanager
def committing(spark: SparkSession, name: str, note: CommitNote) -> Iterator[None]:
    """Every commit on ``messages`` in the block is an external write ``name`` and carries ``note``."""
    spark.conf.set(_NOTE, note.json_text())
    try:
        with external_write(name):
            yield
    finally:
        spark.conf.unset(_NOTE)
