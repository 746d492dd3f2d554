"""Reads and commits of the ``messages`` table by Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from delta.tables import DeltaTable
from deltalake import Transaction, WriterProperties
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.store.delta_log import CommitNote, append_rows, bytes_added
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import MESSAGES
from messagestore_jobs.rows.tables import read_table, refuse_foreign_to_spark, table_to_change

MERGE = {
    # The source is files that nobody changes, so Spark needs no copy of it for its second pass.
    "spark.databricks.delta.merge.materializeSource": "none",
    # Rewrite each file that loses rows by itself, without a shuffle over its day.
    "spark.databricks.delta.merge.repartitionBeforeWrite.enabled": "false",
}
"""Settings of merges that delete or change rows."""
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_COMMITTED = "spark.databricks.delta.lastCommitVersionInSession"


def read_messages(spark: SparkSession, store: Store, version: int | None = None) -> DataFrame:
    """The messages of a store, now or at a table version."""
    return read_table(spark, store, "messages", version)


def positions_in(rows: DataFrame) -> npt.NDArray[np.int64]:
    """The global positions of rows, read by the driver; in any order."""
    positions: npt.NDArray[np.int64] = rows.select("global_position").toArrow()["global_position"].to_numpy()
    return positions


def messages_table(spark: SparkSession, store: Store) -> DeltaTable:
    """The table for deletes, updates and merges; wrap these in ``committing``."""
    return table_to_change(spark, store, "messages")


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
def committing(spark: SparkSession, store: HeldStore, name: str, note: CommitNote) -> Iterator[None]:
    """Make the commit on ``messages`` in the block an external write ``name``, with ``note``."""
    with committing_on(spark, store, "messages", name, note):
        yield


@contextmanager
def committing_on(
    spark: SparkSession, store: HeldStore, table: str, name: str, note: CommitNote | None = None
) -> Iterator[None]:
    """Like ``committing``, on any table; only ``messages`` has totals to note."""
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


def within(messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages within the bounds of ``rows``."""
    limits = bounds(rows)
    return messages.where(F.lit(False) if limits is None else limits.condition())
