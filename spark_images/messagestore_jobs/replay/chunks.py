"""Cut a selection into chunks, which are sent one after the other, and stage them.

A chunk's records are written in order, as a few objects in a staging folder, and then get their final names.
``Delivery`` is common to all kinds of destination.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyarrow import fs
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from typing_extensions import override

from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import ENDED, REPLAYS, STAGING, STATE
from messagestore_core.store.objects import Objects, read_document, write_document
from messagestore_jobs.frozen.orders import Order
from messagestore_jobs.frozen.replays import Chunk, Ended, Format, Frozen, Key, Part, ReplayState, Split
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.source import Source

_CHUNK_ROWS = 1_000_000
_CHUNK_BYTES = 2 << 30
_CHUNK_CLAIM_CHECKS = 10_000
_OBJECT_ROWS = 250_000
_OBJECT_BYTES = 128 << 20
PACED_SECONDS = 2
"""With a rate limit, what is sent at once lasts so long."""
SHOWN = 10
"""How many positions of messages that were not sent a report names."""
_FIRST_ROW_MASK = (1 << 33) - 1
_OPTIONS = {
    "compression": "none",
    # A chunk without a seal is staged again, so tasks may write to the final place before the job is committed. On
    # object storage that saves a copy.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_SPARK_PART = re.compile(r"part-(\d+)-")


@dataclass(frozen=True)
class Size:
    """The limits of a chunk or object that has more than one split."""

    messages: float
    bytes: int
    claim_checks: int = _CHUNK_CLAIM_CHECKS


@dataclass(frozen=True)
class ChunkRange:
    """The range of one chunk: all selected from ``cuts[0]`` on and before ``end``; each cut begins an object."""

    cuts: tuple[Key, ...]
    end: Key | None
    next_split: int
    messages: int
    claim_checks: int
    last_global_position: int | None


def chunk_size(messages_per_second: float | None, cores: int) -> Size:
    """The limits for large chunks, or with a rate limit for one chunk every few seconds."""
    if messages_per_second is None:
        return Size(_CHUNK_ROWS * cores, _CHUNK_BYTES * cores, _CHUNK_CLAIM_CHECKS)
    return Size(max(1, messages_per_second * PACED_SECONDS), _CHUNK_BYTES)


def smaller(size: Size, bound: Size | None) -> Size:
    """A size within a bound."""
    if bound is None:
        return size
    return Size(
        min(size.messages, bound.messages), min(size.bytes, bound.bytes), min(size.claim_checks, bound.claim_checks)
    )


def next_range(frozen: Frozen, first: int, size: Size, cores: int) -> ChunkRange:
    """The range of the next chunk, from split ``first`` on."""
    splits = _up_to(frozen.splits, first, size)
    total = Size(sum(g.messages for g in splits), sum(g.bytes for g in splits))
    following = first + len(splits)
    # A large chunk is several objects, to use all cores; a small one is one object.
    parts = cores if total.messages > _OBJECT_ROWS else 1
    objects = Size(min(_OBJECT_ROWS * 4, -(-total.messages // parts)), _OBJECT_BYTES)
    return ChunkRange(
        cuts=_object_starts(splits, objects),
        end=frozen.splits[following].start if following < len(frozen.splits) else frozen.end,
        next_split=following,
        messages=int(total.messages),
        claim_checks=sum(g.claim_checks for g in splits),
        last_global_position=max((g.last_global_position or 0 for g in splits), default=None),
    )


@dataclass(frozen=True)
class Staged:
    """What was staged: messages by object number, how many failed and expired, the first positions of failed ones."""

    messages: dict[int, int]
    failed: int
    expired: int
    first_failed: tuple[int, ...] = ()


def stage(
    records: DataFrame, order: Order, chunk_range: ChunkRange, form: Format, state: ReplayState, *, sort: bool
) -> Staged:
    """Write records (key and ``value``, null if it can't be sent); Spark's file names have the objects' numbers."""
    if "_expired" not in records.columns:
        records = records.withColumn("_expired", F.lit(False))
    # Rows with claim checks lie in many small partitions.
    if sort or form == "JSON" or chunk_range.claim_checks:
        ordered, objects = _by_object(records, order, chunk_range, form), len(chunk_range.cuts)
    else:
        ordered, objects = _as_they_lie(records)
    counted = Observation("replay")
    failed = F.col("value").isNull() & ~F.col("_end") & ~F.col("_expired")
    rows = ordered.observe(
        counted,
        F.count_if(failed).alias("failed"),
        F.count_if(F.col("_expired") & ~F.col("_end")).alias("expired"),
        *(F.count_if(F.col("value").isNotNull() & (F.col("_object") == i)).alias(f"n{i}") for i in range(objects)),
    ).where(F.col("value").isNotNull() | F.col("_end"))
    if form == "JSON":
        rows = _as_arrays(rows.sortWithinPartitions("_end", *order.columns))
    elif sort:
        rows = rows.sortWithinPartitions(*order.columns)
    with state.held.step("replay-staging"):
        _save(rows.drop("_object", "_end", "_expired", *order.columns), form, state.staging_uri)
    # Spark observes nothing if it plans that there are no rows.
    counts = counted.get
    messages = {i: counts.get(f"n{i}", 0) for i in range(objects)}
    count = counts.get("failed", 0)
    return Staged(messages, count, counts.get("expired", 0), _first_failed(records, order) if count else ())


class StagedObjects(Objects):
    """The objects under one URI, some of which Spark writes."""

    def staged(self, below: str) -> dict[int, tuple[str, int]]:
        """The objects that Spark wrote into a folder: name (relative to the URI) and bytes, by number of the task."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True)
        objects = {}
        for info in self._fs.get_file_info(selector):
            part = _SPARK_PART.match(info.base_name)
            if part and info.size:
                objects[int(part[1])] = (f"{below}/{info.base_name}", info.size)
        return objects

    def move(self, name: str, to: str) -> None:
        """Rename an object and set its modification time to now; do nothing if it is gone, as it was moved before."""
        if not self.exists(name):
            return
        self._make_parent(self._path(to))
        if self._local:
            # Otherwise the times would show the order in which tasks ended; on object storage the copy has a new time.
            os.utime(self._path(name))
        self._fs.move(self._path(name), self._path(to))


class Delivery(Protocol):
    """Delivers sealed chunks to a destination; each method may be repeated after a crash."""

    objects: StagedObjects
    """Names of parts are relative to its URI."""
    state: ReplayState
    staging: str
    """The staging folder of chunks, below ``objects``."""
    form: Format
    line_breaks: LineBreaks
    takes_back: bool
    """Whether objects that were delivered can still be changed until the replay ends."""
    largest_chunk: Size | None = None
    """The limits of a chunk, as a replay can only pause after one; None: those of all replays."""

    def ended(self) -> ReplayOutcome | None:
        """The outcome of a replay that has ended; None before."""

    def is_of_another(self) -> bool:
        """Whether what is there under the replay's name is of a resource that asked for something else."""

    def check(self) -> str | None:
        """Refuse an unfit destination, before anything is written; return its id, if it has one.

        By that a destination is told apart that is made again under its name.
        """
        return None

    def fit(self, source: Source, frozen: Frozen) -> Frozen:
        """Refuse a selection that the destination can't take, before anything is staged; most take any.

        Return the selection, with what was found out about the destination.
        """
        return frozen

    def part_name(self, number: int) -> str:
        """The final name of the replay's n-th object."""

    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """The name of an object that can still be changed, and how many of its first messages can't; else None.

        By default that is also one under its final name, and all of its messages.

        Args:
            part: the object, of a sealed chunk.
            first: how many messages were sent before its first one.
        """
        return next(((name, 0) for name in (part.staged, part.name) if self.objects.exists(name)), None)

    def deliver(self, chunk: Chunk, first: int, unchanged: Callable[[], bool]) -> bool:
        """Send a sealed chunk; false if tombstones changed before all of it was sent.

        Args:
            chunk: of messages, or of dead letters.
            first: how many were sent before its first one.
            unchanged: whether the tombstones are those that the chunk was held against; asked before anything is sent.
        """

    def has_sent(self) -> bool:
        """Whether anything that is sealed was sent; where that isn't known, it counts as sent."""
        return True

    def set_aside(self) -> int:
        """How many of the replay's messages the destination refused; they count as sent."""
        return 0

    def close(self) -> None:
        """Close what is open; this run delivers no more chunks."""
        return

    def break_off(self) -> None:
        """Close connections after a failure; a run that goes on opens others."""
        return

    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome | None:
        """End the replay after all chunks; return the outcome, with what the destination did with them.

        None, and nothing ended, if tombstones changed and the destination takes back what names an erased message.
        """


class StoreDelivery(Delivery):
    """A delivery whose state is in the folder of a store that the run may write to, whose readers ignore it.

    ``origin`` is the URI of the store that is replayed.
    """

    staging = f"{STATE}/{STAGING}"
    takes_back = False

    def __init__(self, held: HeldStore, task: ReplayTask, origin: str) -> None:
        self._held, self._task, self._origin = held, task, origin
        self.objects = StagedObjects(held.path(REPLAYS, task.job_id), held.storage)
        self.state = ReplayState(held, self.objects.below(STATE))

    @override
    def ended(self) -> ReplayOutcome | None:
        ended = read_document(self.objects, ENDED, Ended)
        if ended is None:
            return None
        self._forget()
        return ended.outcome()

    @override
    def is_of_another(self) -> bool:
        """An earlier release didn't say what an ended replay was asked for."""
        ended = read_document(self.objects, ENDED, Ended)
        if ended is not None:
            return ended.request_digest not in (None, self._task.request_digest)
        return self.state.is_of_another(self._task, self._origin)

    @override
    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome:
        """Write the outcome, so that the replay is not repeated, and remove all other state."""
        ended = Ended(**dict(outcome), request_digest=self._task.request_digest)
        with self._held.step("replay-ended"):
            write_document(self.objects, ENDED, ended)
        self._forget()
        return outcome

    def _forget(self) -> None:
        self.state.remove()


def _up_to(splits: Sequence[Split], first: int, size: Size) -> Sequence[Split]:
    """The splits from ``first`` on within the limits, at least one."""
    messages = held = claim_checks = 0
    for i in range(first, len(splits)):
        split = splits[i]
        messages, held, claim_checks = messages + split.messages, held + split.bytes, claim_checks + split.claim_checks
        if i > first and (messages > size.messages or held > size.bytes or claim_checks > size.claim_checks):
            return splits[first:i]
    return splits[first:]


def _object_starts(splits: Sequence[Split], size: Size) -> tuple[Key, ...]:
    starts = []
    at = 0
    while at < len(splits):
        starts.append(splits[at].start)
        at += len(_up_to(splits, at, size))
    return tuple(starts)


def _first_failed(records: DataFrame, order: Order) -> tuple[int, ...]:
    """The lowest global positions of failed messages, by their keys; dead letters have none."""
    if order.parts[-1] != ("global_position", "bigint"):
        return ()
    position = order.columns[-1]
    failed = records.where("value IS NULL AND NOT _expired").select(position).orderBy(position).limit(SHOWN)
    return tuple(row[0] for row in failed.collect())


def _by_object(records: DataFrame, order: Order, chunk_range: ChunkRange, form: Format) -> DataFrame:
    """Assign rows to objects by the known cuts, so that Spark samples nothing and shuffles once."""
    objects = len(chunk_range.cuts)
    number: Column = F.lit(0)
    for cut in chunk_range.cuts[1:]:
        number = number + order.from_(cut).cast("int")
    rows = records.select("*", number.alias("_object"), F.lit(False).alias("_end"))
    if form == "JSON":
        ids = records.sparkSession.range(objects)
        ends = ids.select(
            F.col("id").cast("int").alias("_object"), F.lit(True).alias("_end"), F.lit(False).alias("_expired")
        )
        rows = rows.unionByName(ends, allowMissingColumns=True)
    return rows.repartitionById(objects, "_object")


def _as_they_lie(records: DataFrame) -> tuple[DataFrame, int]:
    """Make one object of each Spark partition, as the table's files are split."""
    rows = records.select("*", F.spark_partition_id().alias("_object"), F.lit(False).alias("_end"))
    return rows, records.rdd.getNumPartitions()


def _as_arrays(rows: DataFrame) -> DataFrame:
    """Lines of a JSON array in each object: the first opens it, others begin with a comma, the last closes it."""
    first = F.monotonically_increasing_id().bitwiseAND(_FIRST_ROW_MASK) == 0
    value = (
        F.when(F.col("_end"), F.when(F.col("_first"), "[]").otherwise("]"))
        .when(F.col("_first"), F.concat(F.lit("["), "value"))
        .otherwise(F.concat(F.lit(","), "value"))
    )
    return rows.select("*", first.alias("_first")).select(value.alias("value"))


def _save(rows: DataFrame, form: Format, folder: str) -> None:
    writer = rows.write.mode("overwrite").options(**_OPTIONS)
    if form == "Parquet":
        writer.parquet(folder)
    else:
        writer.option("lineSep", "\n").text(folder)
