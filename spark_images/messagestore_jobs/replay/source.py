"""The store as a replay reads it: at the version that was frozen, or what is left of it."""

from datetime import datetime
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.run_document import ReplayTask
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.external import external_write
from messagestore_core.store.handle import Store
from messagestore_jobs.lifecycle.updates import KIND as UPDATE
from messagestore_jobs.replay.selection import (
    BY_POSITION,
    Key,
    Order,
    lasts,
    order_of,
    selected_dead_letters,
    selected_messages,
)
from messagestore_jobs.replay.state import Frozen
from messagestore_jobs.rows.tables import read_table

# What Spark and Delta say when a file or a version of a table can't be read any more. Nothing else may be taken for
# it: where only a purge took messages away, the frozen version still has them.
_GONE = (
    "FAILED_READ_FILE.FILE_NOT_EXIST",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_NO_RECREATABLE_HISTORY_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSION_NOT_FOUND",
)


class Source:
    """The selected rows of one table, at one version."""

    def __init__(self, spark: SparkSession, store: Store, task: ReplayTask, version: int, now: datetime) -> None:
        self.spark, self.store, self.task, self.version, self.now = spark, store, task, version, now
        self.order: Order = order_of(task)
        self.listed = task.origin == "Messages" and not lasts(task.select)
        self._selected: DataFrame | None = None
        self._left: Column | None = None

    @property
    def table(self) -> str:
        """The table that the origin names."""
        return "dead_letters" if self.task.origin == "DeadLetters" else "messages"

    def rows(self) -> DataFrame:
        """All selected rows, with their key."""
        return self.order.keyed(self._chosen())

    def between(self, start: Key, end: Key | None) -> DataFrame:
        """The selected rows of one range of the order, with their key."""
        return self.rows().where(self.order.between(start, end))

    def list_selected(self, uri: str) -> None:
        """Write down which positions are selected, so that they stay so whatever becomes of the messages."""
        positions = selected_messages(self._table, self.task.select, self.now).select("global_position")
        with external_write("replay-selected"):
            positions.write.mode("overwrite").parquet(uri)
        self.use_list(uri)

    def use_list(self, uri: str) -> None:
        """Take the positions that were written down for the selection."""
        self._selected = self.spark.read.schema("global_position bigint").parquet(uri)

    def use_what_is_left(self, frozen: Frozen) -> None:
        """Read the newest version from here on; what came after the frozen one is left out."""
        self.version = self.store.table(self.table).version()
        self.__dict__.pop("_table", None)
        if self.task.origin == "DeadLetters":
            self._left = F.col("failed_at") <= F.lit(frozen.at)
        else:
            self._left = F.col("global_position") <= F.lit(frozen.selection.last_global_position)

    def current(self) -> DataFrame:
        """The table as it is at this moment, selected or not."""
        return read_table(self.spark, self.store, self.table)

    def _chosen(self) -> DataFrame:
        rows = self._table if self._left is None else self._table.where(self._left)
        if self.task.origin == "DeadLetters":
            if self.task.destination.kind == "stream":
                # A stream takes messages in, and an update is none.
                rows = rows.where(F.coalesce(F.col("source.kind") != UPDATE, F.lit(True)))
                if self.task.destination.table.uri == self.store.uri:
                    # They are in the store; an update has them tried again.
                    rows = rows.where(F.col("reason") != str(DeadLetterReason.RETRIES_EXHAUSTED))
            return selected_dead_letters(rows, self.task.select)
        if self._selected is None:
            return selected_messages(rows, self.task.select, self.now)
        return rows.join(self._selected, "global_position", "left_semi").select(*rows.columns)

    @cached_property
    def _table(self) -> DataFrame:
        """Opened once, as each opening reads the log anew."""
        return read_table(self.spark, self.store, self.table, self.version)


def by_position(source: Source) -> bool:
    """Whether the order is the one that the table's files are in."""
    return source.order is BY_POSITION


def is_gone(error: Exception) -> bool:
    """Whether a read failed because what it reads was removed from the store for good."""
    text = str(error)
    return any(sign in text for sign in _GONE)
