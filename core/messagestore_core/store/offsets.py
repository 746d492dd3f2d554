"""What has been read from each Kafka source: which offsets of which partitions, in which batch.

A batch's rows are written before it, and are in force once a commit on ``messages`` has its number. A topic that was
deleted and made again has another id, and counts as another topic. Only the rows of each partition's last batch count,
and those about lost records; the others are deleted, many at a time.

Topics of one name are numbered in the order in which the store first read them, whichever source did. The number, their
generation, is in the source URI of records from the second topic on, so that they are told apart by their places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from messagestore_core.store.batches import ReadBatches
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import OFFSETS, literal

URI = "kafka:"
"""The prefix of a Kafka record's source URI; the topic follows, and from the second generation on ``GENERATION`` and
its number."""
GENERATION = "@"
"""No topic's name can have it."""
SUPERSEDED = 10_000
"""How many superseded rows stay at most; more where there are more others."""
_PARTITION = ["topic", "topic_id", "partition"]


@dataclass(frozen=True)
class Partition:
    """A partition of a topic. The topic's id distinguishes topics of the same name."""

    topic: str
    topic_id: str
    number: int


@dataclass(frozen=True)
class OffsetRange:
    """The records of a partition with offsets in [start, end).

    Attributes:
        start: the first offset.
        end: one past the last offset.
        latest: the end of the partition when the range was planned.
        lost: why the range can't be read; None: it is read.
    """

    partition: Partition
    start: int
    end: int
    latest: int
    lost: str | None = None


@dataclass(frozen=True)
class OffsetBatch:
    """One planned batch: its number, its clock, and what it reads, in order of arrival.

    ``verdict_digest`` is as in ``files.Batch``.
    """

    number: int
    at: datetime
    ranges: tuple[OffsetRange, ...]
    verdict_digest: str | None = None
    generations: Mapping[str, int] = field(default_factory=dict)
    """Of the topics that are not the first of their name, by topic id."""

    def uri(self, partition: Partition) -> str:
        """The source URI of a partition's records in this batch."""
        generation = self.generations.get(partition.topic_id, 1)
        return f"{URI}{partition.topic}" + (f"{GENERATION}{generation}" if generation > 1 else "")


@dataclass(frozen=True)
class ReadUpTo:
    """How far a partition has been read, and its end at that time."""

    offset: int
    latest: int


class ReadOffsets(ReadBatches[OffsetBatch]):
    """What one source's batches have read, kept in the store's table ``offsets``."""

    _table = "offsets"

    def __init__(self, store: Store, source_id: str) -> None:
        super().__init__(store, source_id)
        rows = store.table("offsets").to_pyarrow_table()
        self._rows: pa.Table = rows.filter(pc.field("source_id") == source_id)
        self._known = _generations(rows)
        self._topics_of_others = set(rows.filter(pc.field("source_id") != source_id)["topic"].to_pylist())
        self._read = _read_up_to(self._rows)
        self._see_others(rows)

    @property
    @override
    def last_batch(self) -> int:
        return pc.max(self._rows["batch"]).as_py() or 0

    @override
    def planned(self, number: int) -> OffsetBatch | None:
        rows = self._rows.filter(pc.field("batch") == number).to_pylist()
        if not rows:
            return None
        ranges = (OffsetRange(_partition(row), row["start"], row["end"], row["latest"], row["lost"]) for row in rows)
        later = {row["topic_id"]: row["generation"] for row in rows if (row["generation"] or 1) > 1}
        # The command line reads stores of earlier releases too.
        return OffsetBatch(number, rows[0]["at"], offsets_in_order(ranges), rows[0].get("judged_by"), later)

    def generations(self, ranges: Iterable[OffsetRange]) -> dict[str, int]:
        """The generations of a new batch, as in ``OffsetBatch``.

        Earlier releases noted none: then the topic whose rows are the oldest is the first.
        """
        topics = {r.partition.topic_id: r.partition.topic for r in ranges}
        if any(self._known.get(topic, {}).get(topic_id) is None for topic_id, topic in topics.items()):
            # Another source of the store may have read the topic since.
            self._known = _generations(self._store.table("offsets").to_pyarrow_table())
        for topic_id, topic in topics.items():
            ids = self._known.setdefault(topic, {})
            ids[topic_id] = ids.get(topic_id) or _next_generation(ids, topic_id)
        generations = {topic_id: self._known[topic][topic_id] or 1 for topic_id, topic in topics.items()}
        return {topic_id: generation for topic_id, generation in generations.items() if generation > 1}

    def read_up_to(self) -> dict[Partition, ReadUpTo]:
        """How far each partition has been read, by its last batch."""
        return self._read

    def read_before(self, batch: OffsetBatch) -> set[str]:
        """The URIs of a batch's topics that an earlier batch or try, of this source or another, may have read too."""
        topics = {r.partition.topic for r in batch.ranges}
        again = {r.partition.topic for r in batch.ranges if self._has_read(r)}
        ids = {r.partition.topic_id for r in batch.ranges}
        namesakes = {partition.topic for partition in self._read if partition.topic_id not in ids}
        # Earlier releases gave records of all topics of one name the same URI.
        first = {r.partition.topic for r in batch.ranges if r.partition.topic_id not in batch.generations}
        known = topics & (again | (namesakes & first) | self._topics_of_others)
        return {batch.uri(r.partition) for r in batch.ranges if r.partition.topic in known}

    def write_down(self, batch: OffsetBatch) -> None:
        """Write the plan of a batch, durably."""
        kept, rows = self._kept(), self._rows_of(batch)
        known = pa.concat_tables([kept, rows])
        with self._held.step("plan"):
            if kept is self._rows:
                self._held.write_rows("offsets", rows)
            else:
                self._held.write_rows("offsets", known, mode="overwrite", predicate=self._own())
        self._rows = known
        self._read = self._read | _read_up_to(rows)

    def plan_anew(self, batch: OffsetBatch) -> None:
        """Replace the plan of an uncommitted batch, durably and in one commit."""
        rows = self._rows_of(batch)
        with self._held.step("plan-anew"):
            own = f"{self._own()} and batch = {batch.number}"
            self._held.write_rows("offsets", rows, mode="overwrite", predicate=own)
        self._rows = pa.concat_tables([self._rows.filter(pc.field("batch") != batch.number), rows])
        self._read = _read_up_to(self._rows)

    def lost(self) -> tuple[int, OffsetBatch] | None:
        """How many offsets were lost, and the last batch that lost any, with its lost ranges; None without loss."""
        rows = self._rows.filter(pc.is_valid(pc.field("lost")))
        if not rows.num_rows:
            return None
        last = self.planned(pc.max(rows["batch"]).as_py())
        assert last is not None
        offsets = int(pc.sum(pc.subtract(rows["end"], rows["start"])).as_py())
        return offsets, replace(last, ranges=tuple(r for r in last.ranges if r.lost))

    def _has_read(self, r: OffsetRange) -> bool:
        read = self._read.get(r.partition)
        return read is not None and read.offset > r.start

    def _kept(self) -> pa.Table:
        """All rows while few are superseded, otherwise those that count."""
        if self._rows.num_rows <= SUPERSEDED:
            return self._rows
        counts = pc.or_(pc.is_valid(self._rows["lost"]), pc.equal(self._rows["batch"], self.last_batch))
        of_last = _of_last(self._rows.filter(pc.invert(counts))).cast(self._rows.schema)
        counting = pa.concat_tables([self._rows.filter(counts), of_last])
        superseded = self._rows.num_rows - counting.num_rows
        return counting if superseded > max(SUPERSEDED, counting.num_rows) else self._rows

    def _own(self) -> str:
        return f"source_id = {literal(self._source_id)}"

    def _rows_of(self, batch: OffsetBatch) -> pa.Table:
        rows = [
            {
                "source_id": self._source_id,
                "batch": batch.number,
                "at": batch.at,
                "topic": r.partition.topic,
                "topic_id": r.partition.topic_id,
                "partition": r.partition.number,
                "start": r.start,
                "end": r.end,
                "latest": r.latest,
                "lost": r.lost,
                "judged_by": batch.verdict_digest,
                "generation": batch.generations.get(r.partition.topic_id, 1),
            }
            for r in batch.ranges
        ]
        return pa.Table.from_pylist(rows, schema=OFFSETS)


def generations_of(store: Store, topic: str) -> dict[str, int]:
    """The generations of the topics of a name that the store has read, by topic id."""
    rows = store.table("offsets").to_pyarrow_table(columns=["topic", "topic_id", "generation", "at"])
    known = _generations(rows.filter(pc.field("topic") == topic)).get(topic, {})
    return {topic_id: generation or 1 for topic_id, generation in known.items()}


def offsets_in_order(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges in order of arrival: by topic, partition and offset."""
    return tuple(sorted(ranges, key=lambda r: (r.partition.topic, r.partition.topic_id, r.partition.number, r.start)))


def _read_up_to(rows: pa.Table) -> dict[Partition, ReadUpTo]:
    ends = _of_last(rows).group_by(_PARTITION).aggregate([("end", "max"), ("latest", "max")]).to_pylist()
    return {_partition(row): ReadUpTo(row["end_max"], row["latest_max"]) for row in ends}


def _of_last(rows: pa.Table) -> pa.Table:
    """The rows of each partition's last batch: two where one range was lost and the next was read."""
    last = rows.group_by(_PARTITION).aggregate([("batch", "max")]).rename_columns([*_PARTITION, "batch"])
    return rows.join(last, [*_PARTITION, "batch"], join_type="left semi")


def _generations(rows: pa.Table) -> dict[str, dict[str, int | None]]:
    """The generation of each topic id, by topic, in order of their oldest rows; None where no row says it."""
    ids = rows.group_by(["topic", "topic_id"]).aggregate([("generation", "max"), ("at", "min")])
    generations: dict[str, dict[str, int | None]] = {}
    for row in ids.sort_by([("at_min", "ascending"), ("topic_id", "ascending")]).to_pylist():
        generations.setdefault(row["topic"], {})[row["topic_id"]] = row["generation_max"]
    return generations


def _next_generation(ids: Mapping[str, int | None], topic_id: str) -> int:
    """The generation of a topic that has none, among those of its name."""
    given = [generation for generation in ids.values() if generation is not None]
    without = [one for one, generation in ids.items() if generation is None]
    is_first = not ids or (without[:1] == [topic_id] and 1 not in given)
    return 1 if is_first else max([1, *given]) + 1


def _partition(row: dict[str, Any]) -> Partition:
    return Partition(row["topic"], row["topic_id"], row["partition"])
