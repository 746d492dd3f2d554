"""Reads and commits of a store's tables by Spark, above all of ``messages``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from delta.tables import DeltaMergeBuilder, DeltaTable
from deltalake import Transaction, WriterProperties
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType

from messagestore_core.store.delta_log import CommitNote, append_rows, bytes_added
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.foreign import TableMetadata, not_ours, refuse
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import EVERY_TABLE, MESSAGES

MERGE = {
    # The source is files that nobody changes, so Spark needs no copy of it for its second pass.
    "spark.databricks.delta.merge.materializeSource": "none",
    # Rewrite each file that loses rows by itself, without a shuffle over its day.
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "false",
}
"""Settings of merges that delete or change rows."""
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_COMMITTED = "spark.databricks.delta.lastCommitVersionInSession"


def read_table(spark: SparkSession, store: Store, name: str, version: int | None = None) -> DataFrame:
    """The rows of a table, now or at a version, with all columns of this release; missing ones are null.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    refuse_foreign_to_spark(spark, store, name)
    reader = spark.read.format("delta")
    if version is not None:
        # If the version is gone, Spark's error says so in a way that callers recognize.
        with suppress(DeltaError):
            store.table(name, version)
        reader = reader.option("versionAsOf", version)
    rows = reader.load(store.path(name))
    columns = _types(name)
    return rows.withColumns({c: F.lit(None).cast(columns[c]) for c in columns if c not in rows.columns})


@cache
def _types(name: str) -> dict[str, DataType]:
    return {field.name: field.dataType for field in from_arrow_schema(EVERY_TABLE[name])}


def table_to_change(spark: SparkSession, store: Store, name: str) -> DeltaTable:
    """A table for deletes, updates and merges; wrap these in ``committing``.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    refuse_foreign_to_spark(spark, store, name)
    return DeltaTable.forPath(spark, store.path(name))


def refuse_foreign_to_spark(spark: SparkSession, store: Store, name: str) -> str:
    """Check a table right before Spark opens it: its files, and its log as Spark reads it.

    Return its protocol and metadata, as Spark reads them.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    store.table(name)
    jvm = spark._jvm
    assert jvm is not None
    path, none = jvm.org.apache.hadoop.fs.Path(store.path(name)), jvm.scala.Option.empty()
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).update(False, none, none)
    text = str(jvm.dev.messagestore.spark.BatchCommit.says(snapshot))
    metadata = _metadata(snapshot.version(), text)
    refuse(store.uri, name, metadata.version, not_ours(name, metadata))
    return text


def _metadata(version: int, text: str) -> TableMetadata:
    protocol, metadata = (json.loads(line) for line in text.split("\n"))
    protocol, metadata = protocol["protocol"], metadata["metaData"]
    return TableMetadata(
        version,
        protocol["minReaderVersion"],
        protocol["minWriterVersion"],
        [*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())],
        metadata["configuration"],
        metadata["partitionColumns"],
        metadata["schemaString"],
    )


def read_messages(spark: SparkSession, store: Store, version: int | None = None) -> DataFrame:
    """The messages of a store, now or at a table version."""
    return read_table(spark, store, "messages", version)


def positions_in(rows: DataFrame) -> npt.NDArray[np.int64]:
    """The global positions of rows, read by the driver; in any order."""
    positions: npt.NDArray[np.int64] = rows.select("global_position").toArrow()["global_position"].to_numpy()
    return positions


def append_messages(
    spark: SparkSession,
    store: HeldStore,
    rows: DataFrame,
    note: CommitNote,
    batch: tuple[str, int],
    compression: str,
    *,
    alone: bool,
) -> None:
    """Append rows in one commit with ``note``, even without rows.

    Args:
        rows: of ``messages``.
        batch: source id and number; it is not committed yet.
        compression: None or Zstd.
        alone: whether the run probably makes no other commit; this one then takes less time, later ones more.
    """
    spark.conf.set("spark.sql.parquet.compression.codec", "uncompressed" if compression == "None" else "zstd")
    metadata = refuse_foreign_to_spark(spark, store, "messages")
    commit = spark._jvm.dev.messagestore.spark.BatchCommit  # type: ignore[union-attr]
    store.known.beginning("messages")
    try:
        with store.step("messages"):
            version = commit.append(rows._jdf, store.path("messages"), *batch, store.note_text(note), metadata, alone)
    except Py4JJavaError:
        # If the table is refused for this reason, that error is clearer.
        refuse_foreign_to_spark(spark, store, "messages")
        raise
    store.known.committed("messages", version)


def append_few_messages(
    store: HeldStore, rows: DataFrame, note: CommitNote, batch: tuple[str, int], compression: str
) -> None:
    """Like ``append_messages``, of no more rows than the driver can hold, by delta-rs.

    That has read the log already; Spark would read all of it for its first commit.
    """
    own = store.commit_properties(note, Transaction(*batch))
    codec = WriterProperties(compression="UNCOMPRESSED" if compression == "None" else "ZSTD")
    few = _complete(rows.toArrow())
    with store.step("messages"):
        table = store.commit(
            "messages", lambda table: append_rows(table, "messages", few, own, writer_properties=codec)
        )
    store.wrote("messages", table.version(), own)
    store.appended_bytes += bytes_added(store, "messages", table.version())


def _complete(rows: pa.Table) -> pa.Table:
    """Rows with all columns of ``messages``; those that they lack are null."""
    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in MESSAGES]
    return pa.table(columns, names=MESSAGES.names).cast(MESSAGES)


@contextmanager
def committing(
    spark: SparkSession, store: HeldStore, name: str, note: CommitNote | None = None, table: str = "messages"
) -> Iterator[None]:
    """Make the commit in the block an external write ``name``; only ``messages`` has totals to note."""
    spark.conf.unset(_COMMITTED)
    spark.conf.set(_NOTE, store.note_text(note))
    store.known.beginning(table)
    try:
        with store.step(name):
            yield
    finally:
        spark.conf.unset(_NOTE)
    version = spark.conf.get(_COMMITTED, None)
    if version is not None:
        store.known.committed(table, int(version))


class Bounds(NamedTuple):
    """The days of some rows, and their first and last global position, as literals, which alone prune files."""

    days: list[date]
    first: int
    last: int

    def condition(self, table: str = "") -> Column:
        """Whether a message is within them; ``table`` is an alias for the columns."""
        prefix = f"{table}." if table else ""
        position = F.col(f"{prefix}global_position")
        return F.col(f"{prefix}inserted_date").isin(*self.days) & position.between(self.first, self.last)


def bounds(rows: DataFrame) -> Bounds | None:
    """The bounds of rows with inserted_date and global_position; None without rows."""
    row = rows.agg(
        F.collect_set("inserted_date").alias("days"),
        F.min("global_position").alias("first"),
        F.max("global_position").alias("last"),
    ).collect()[0]
    return Bounds(sorted(row["days"]), row["first"], row["last"]) if row["days"] else None


def merging(
    spark: SparkSession, store: Store, source: DataFrame, where: Bounds, name: str = "messages"
) -> DeltaMergeBuilder:
    """A merge of the rows ``m`` of a table within bounds with those of ``now``, the source, at their positions."""
    same = where.condition("m") & (F.col("m.global_position") == F.col("now.global_position"))
    return table_to_change(spark, store, name).alias("m").merge(source.alias("now"), same)


def within(messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages within the bounds of ``rows``."""
    limits = bounds(rows)
    return messages.where(F.lit(False) if limits is None else limits.condition())
