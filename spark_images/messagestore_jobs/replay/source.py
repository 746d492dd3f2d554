"""A replay's reads of the store: at the frozen version, or of what is left of it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.replay import Interval, ReplayTask
from messagestore_core.contract.stores import Owner
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.delta_log import FIRST_GLOBAL_POSITION, next_global_position
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.offsets import GENERATION, URI
from messagestore_core.store.refused import RefusedMessages
from messagestore_core.store.tombstones import erased_positions
from messagestore_jobs.frozen.orders import Order
from messagestore_jobs.frozen.replays import Frozen, Key, ReplayState
from messagestore_jobs.lifecycle.updates import KIND as UPDATE
from messagestore_jobs.replay.envelopes import is_original
from messagestore_jobs.replay.selection import REFUSED, lasts, order_of, selected_dead_letters, selected_messages
from messagestore_jobs.replay.waiting import without_erased
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_table

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
    """The selected rows of one table, at one version; ``now`` is when they were frozen, ``clock`` tells this moment."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        task: ReplayTask,
        version: int,
        now: datetime,
        clock: Callable[[], datetime],
    ) -> None:
        self.spark, self.store, self.task, self.version, self.now = spark, store, task, version, now
        self.clock = clock
        self.table = "dead_letters" if task.origin == "DeadLetters" else "messages"
        self.order: Order = order_of(task)
        self._selected: DataFrame | None = None
        self._range: tuple[int, int] | None = None
        """The first and the last selected position, if all between them are selected."""
        self._left: Column | None = None
        self._opened: DataFrame | None = None
        self._seen: dict[str, Any] | None = None
        """What was found while the selected positions were listed."""

    @property
    def owner(self) -> Owner:
        """The stream that is replayed."""
        assert self.store.owner is not None
        return self.store.owner

    @property
    def sends_records(self) -> bool:
        """Whether messages are sent as the records that they came in."""
        return getattr(self.task.to, "envelope", None) == "Original"

    @property
    def listed(self) -> bool:
        """Whether a new selection has to be written, as the selectors may match others later."""
        return self.task.origin == "Messages" and (self.sends_records or not lasts(self.task.select))

    def withheld(self) -> int:
        """How many messages would be selected if they had their record as it came."""
        if not self.sends_records:
            return 0
        if self._seen is not None:
            return int(self._seen.get("withheld", 0))
        rows = self._matching(self.frozen_table)
        return rows.where(~is_original(rows)).count()

    def origins(self) -> list[tuple[str, int]]:
        """The topics of selected messages, each with its highest partition."""
        seen = self._seen or {}
        if seen.get("first_topic") is not None and seen["first_topic"] == seen["last_topic"]:
            return [(seen["first_topic"], seen["last_partition"])]
        rows = self.rows().groupBy(_topic().alias("topic")).agg(F.max("source.partition").alias("last")).collect()
        return sorted((row["topic"], row["last"]) for row in rows)

    def bounds(self) -> tuple[int, int]:
        """Positions that no selected one is before or after, by what the log says."""
        if self._range is not None:
            return self._range
        select = self.task.select
        given, waited = select.global_positions or Interval(), select.waiting.before if select.waiting else ()
        first = max(given.from_ or FIRST_GLOBAL_POSITION, FIRST_GLOBAL_POSITION)
        last = next_global_position(self.store) - 1 if given.to is None else given.to
        return min([first, *waited[:1]]), last

    def ends(self) -> tuple[int, int] | None:
        """The first and the last selected position; None without any."""
        place = F.col("global_position")
        row = self.rows().agg(F.min(place), F.max(place)).first()
        return None if row is None or row[0] is None else (row[0], row[1])

    def rows(self) -> DataFrame:
        """All selected rows, with their key."""
        return self.order.keyed(self._chosen())

    def between(self, start: Key, end: Key | None) -> DataFrame:
        """The selected rows of one range of the order, with their key."""
        return self.rows().where(self.order.between(start, end))

    def list_selected(self, state: ReplayState) -> None:
        """Write the selected positions, so that the selection stays the same while messages change.

        What is asked of records that are sent as they came is found on the way, as each look at the table takes time.
        """
        rows, seen = self._matching(self.frozen_table), Observation() if self.sends_records else None
        if seen is not None:
            rows = _originals(rows, seen)
        with state.held.step("replay-selected"):
            rows.select("global_position").write.mode("overwrite").parquet(state.selected_uri)
        self._seen = None if seen is None else seen.get
        self.use_list(state.selected_uri)

    def use_list(self, uri: str) -> None:
        """Use the written positions as the selection."""
        self._selected = self.spark.read.schema("global_position bigint").parquet(uri)
        place = F.col("global_position")
        ends = self._selected.agg(F.min(place), F.max(place), F.count(place)).first()
        assert ends is not None
        first, last, messages = ends
        self._range = (first, last) if messages and last - first + 1 == messages else None

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

    def current(self) -> DataFrame:
        """All rows of the table as it is now."""
        return read_table(self.spark, self.store, self.table)

    def _chosen(self) -> DataFrame:
        rows = self.frozen_table if self._left is None else self.frozen_table.where(self._left)
        if self.task.origin == "DeadLetters":
            if self.task.to.kind == "stream":
                # A stream ingests messages, and a status update is none.
                rows = rows.where(F.coalesce(F.col("source.kind") != UPDATE, F.lit(True)))
                if self.task.to.table.uri == self.store.uri:
                    # These messages are in the store; a RETRY update tries them again.
                    rows = rows.where(F.col("reason") != str(DeadLetterReason.RETRIES_EXHAUSTED))
            return selected_dead_letters(rows, self.task.select)
        if self._range is not None:
            return rows.where(F.col("global_position").between(*self._range))
        if self._selected is None:
            matching = self._matching(rows)
            return matching.where(is_original(matching)) if self.sends_records else matching
        return rows.join(self._selected, "global_position", "left_semi").select(*rows.columns)

    def _matching(self, rows: DataFrame) -> DataFrame:
        """The rows that match the selectors, whether they can be sent in the destination's form or not."""
        select, columns = self.task.select, rows.columns
        if select.waiting is not None:
            # What waits was decided without them.
            rows = without_erased(rows, erased_positions(self.store))
        return selected_messages(self.with_refused(rows), select, self.now).select(*columns)

    def with_refused(self, rows: DataFrame, within: tuple[int, int] | None = None) -> DataFrame:
        """The rows, with column ``REFUSED`` if other destinations decide what goes here.

        ``within`` are the position before the first of the rows, and that of the last; absent: those of the selection.
        """
        task = self.task
        if task.select.routing is None or not task.select.routing.deciders:
            return rows
        if within is None:
            selected = task.select.global_positions
            assert selected is not None
            within = (selected.from_ or 0) - 1, selected.to or 0
        own = store_id(self.store)
        left = [RefusedMessages(self.store, one.folder, own).positions(*within) for one in task.select.routing.deciders]
        positions = np.unique(np.concatenate(left))
        if not len(positions):
            return rows.withColumn(REFUSED, F.lit(False))
        refused = self.spark.createDataFrame(pa.table({"global_position": positions})).withColumn(REFUSED, F.lit(True))
        flagged = rows.join(F.broadcast(refused), "global_position", "left")
        return flagged.select(*rows.columns, F.coalesce(REFUSED, F.lit(False)).alias(REFUSED))

    @property
    def frozen_table(self) -> DataFrame:
        """All rows of the table at the frozen version, opened once, as each opening reads the log."""
        if self._opened is None:
            self._opened = read_table(self.spark, self.store, self.table, self.version)
        return self._opened


def _originals(rows: DataFrame, seen: Observation) -> DataFrame:
    """The rows that have their record as it came; ``seen`` counts the others, and has the topics of these."""
    rows = rows.select(
        "global_position",
        is_original(rows).alias("goes"),
        _topic().alias("topic"),
        F.col("source.partition").alias("partition"),
    )
    goes = F.col("goes")
    topic, partition = (F.when(goes, F.col(name)) for name in ("topic", "partition"))
    return rows.observe(
        seen,
        F.count_if(~goes).alias("withheld"),
        F.min(topic).alias("first_topic"),
        F.max(topic).alias("last_topic"),
        F.max(partition).alias("last_partition"),
    ).where(goes)


def _topic() -> Column:
    """The topic that a record came from."""
    return F.substring_index(F.replace("source.uri", F.lit(URI), F.lit("")), GENERATION, 1)


def is_gone(error: Exception) -> bool:
    """Whether a read failed because files or log entries were removed from the store."""
    text = str(error)
    return any(sign in text for sign in _GONE)
