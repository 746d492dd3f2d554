"""A replay's reads of the store: at the frozen version, or of what is left of it."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.run_document import ReplayTask
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.handle import Store
from messagestore_jobs.frozen.orders import BY_POSITION, Order
from messagestore_jobs.frozen.replays import Frozen, Key, ReplayState
from messagestore_jobs.lifecycle.updates import KIND as UPDATE
from messagestore_jobs.replay.selection import lasts, order_of, selected_dead_letters, selected_messages
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.tables import read_table

# Errors of Spark and Delta if a file or a version of a table is gone. No other error may count as that: if only a
# purge removed messages, the frozen version still has them.
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
        self._selected: DataFrame | None = None
        self._left: Column | None = None
        self._opened: DataFrame | None = None

    @property
    def table(self) -> str:
        """The table of the task's origin."""
        return "dead_letters" if self.task.origin == "DeadLetters" else "messages"

    @property
    def listed(self) -> bool:
        """Whether a new selection has to be written, as the selectors may match others later."""
        return self.task.origin == "Messages" and not lasts(self.task.select)

    def rows(self) -> DataFrame:
        """All selected rows, with their key."""
        return self.order.keyed(self._chosen())

    def between(self, start: Key, end: Key | None) -> DataFrame:
        """The selected rows of one range of the order, with their key."""
        return self.rows().where(self.order.between(start, end))

    def list_selected(self, state: ReplayState) -> None:
        """Write the selected positions, so that the selection stays the same while messages change."""
        positions = selected_messages(self._table, self.task.select, self.now).select("global_position")
        with state.held.step("replay-selected"):
            positions.write.mode("overwrite").parquet(state.selected_uri)
        self.use_list(state.selected_uri)

    def use_list(self, uri: str) -> None:
        """Use the written positions as the selection."""
        self._selected = self.spark.read.schema("global_position bigint").parquet(uri)

    def use_positions(self, frozen: Frozen, order_uri: str) -> bool:
        """Use the positions that the frozen selection shows, and no selectors; false if it shows none."""
        if self.task.origin == "DeadLetters":
            return False
        if frozen.ordered:
            self.use_list(order_uri)
        elif all(split.dense for split in frozen.splits):
            ends = [(split.first_global_position, split.last_global_position) for split in frozen.splits]
            ranges = self.spark.createDataFrame(ends, "first bigint, last bigint")
            self._selected = ranges.select(F.explode(F.sequence("first", "last")).alias("global_position"))
        return self._selected is not None

    def use_what_is_left(self, frozen: Frozen) -> bool:
        """Read the newest version from now on, without what came after the frozen one; false if it is so already."""
        before = self.version if self._left is not None else None
        self.version = self.store.table(self.table).version()
        self._opened = None
        if self.task.origin == "DeadLetters":
            self._left = F.col("failed_at") <= instant(frozen.at)
        else:
            self._left = F.col("global_position") <= F.lit(frozen.selection.last_global_position)
        return self.version != before

    def frozen_table(self) -> DataFrame:
        """All rows of the table at the frozen version."""
        return self._table

    def current(self) -> DataFrame:
        """All rows of the table as it is now."""
        return read_table(self.spark, self.store, self.table)

    def _chosen(self) -> DataFrame:
        rows = self._table if self._left is None else self._table.where(self._left)
        if self.task.origin == "DeadLetters":
            if self.task.destination.kind == "stream":
                # A stream ingests messages, and a status update is none.
                rows = rows.where(F.coalesce(F.col("source.kind") != UPDATE, F.lit(True)))
                if self.task.destination.table.uri == self.store.uri:
                    # These messages are in the store; a RETRY update tries them again.
                    rows = rows.where(F.col("reason") != str(DeadLetterReason.RETRIES_EXHAUSTED))
            return selected_dead_letters(rows, self.task.select)
        if self._selected is None:
            return selected_messages(rows, self.task.select, self.now)
        return rows.join(self._selected, "global_position", "left_semi").select(*rows.columns)

    @property
    def _table(self) -> DataFrame:
        """The table, opened once, as each opening reads the log."""
        if self._opened is None:
            self._opened = read_table(self.spark, self.store, self.table, self.version)
        return self._opened


def by_position(source: Source) -> bool:
    """Whether the order is that of the table's files."""
    return source.order is BY_POSITION


def is_gone(error: Exception) -> bool:
    """Whether a read failed because files or log entries were removed from the store."""
    text = str(error)
    return any(sign in text for sign in _GONE)
