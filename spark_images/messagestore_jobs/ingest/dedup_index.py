"""What an ingest must know of the store: which ids it holds, and the next position of each stream.

Held by the driver where that fits its memory, otherwise looked up in the table for the keys of one batch.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Memory
from messagestore_jobs.contract.run_report import TableState
from messagestore_jobs.ingest.message_ids import KEYS, Flags, HashedIds, KeyIndex
from messagestore_jobs.session import python_bytes
from messagestore_jobs.store.delta_log import open_table
from messagestore_jobs.store.heads import Heads, read_heads
from messagestore_jobs.store.messages import read_messages

Positions = npt.NDArray[np.int64]

FIRST_GLOBAL_POSITION = 1
"""As message-db counts; positions in a stream start at 0."""
BYTES_A_KEY = 24
"""Eight for the hash and four for its place, as much again while runs are merged."""
BYTES_A_STREAM = 200
FEW = 100_000
"""So many messages are read by this process in less time than Spark takes to plan it."""
FEW_FILES = 100
_SHARE_OF_PYTHON = 3
"""Ids and streams are one index, sequences another, and a batch takes as much."""


def index_bytes(memory: Memory, spark: SparkSession) -> int:
    """How many bytes an index of what the store holds may take."""
    return python_bytes(spark) // _SHARE_OF_PYTHON if memory.index_bytes is None else memory.index_bytes


class DedupIndex(Protocol):
    """What the store holds, as of the last batch."""

    next_global: int

    def contains(self, asked: HashedIds, not_before: int | None) -> Flags:
        """Which of the ids are in the store (with ``not_before``, µs: inserted since)."""

    def next_positions(self, streams: pa.Array) -> Positions:
        """The next position of each stream (distinct names)."""

    def stored(self, added: "Added") -> None:
        """A batch has been committed."""


@dataclass(frozen=True)
class Added:
    """The keys of a committed batch: of its messages, and the heads of its (distinct) streams."""

    keys: HashedIds
    inserted_at: int
    streams: pa.Array
    next_positions: Positions
    next_global: int


def open_dedup_index(spark: SparkSession, uri: str, state: TableState, memory: int) -> DedupIndex:
    """In memory where it fits ``memory`` bytes, in the table otherwise."""
    taken = state.messages * BYTES_A_KEY
    if taken > memory:
        return TableIndex(spark, uri)
    few = _read_here(uri) if state.messages <= FEW and state.files <= FEW_FILES else None
    heads = _heads_of_messages(read_messages(spark, uri), None) if few is None else _heads_of_few(few)
    if heads.num_rows * BYTES_A_STREAM + taken > memory:
        return TableIndex(spark, uri)
    return InMemoryIndex(read_heads(uri), heads, _keys_by_spark(spark, uri) if few is None else _keys_of_few(few))


class InMemoryIndex:
    """Everything, read once.

    Args:
        kept: what the store keeps of streams.
        heads: of the messages that are there: stream_name, next_position, next_global_position.
        keys: of these messages.
    """

    def __init__(self, kept: Heads, heads: pa.Table, keys: KeyIndex) -> None:
        self._kept, self._keys = kept, keys
        self._next: dict[str, int] = dict(kept.by_name)
        for stream, position in zip(heads["stream_name"].to_pylist(), heads["next_position"].to_pylist(), strict=True):
            self._next[stream] = max(position, self._next.get(stream, 0))
        newest = pc.max(heads["next_global_position"]).as_py()
        self.next_global = max(kept.next_global, newest or FIRST_GLOBAL_POSITION)

    def contains(self, asked: HashedIds, not_before: int | None) -> Flags:
        """As :class:`DedupIndex` has it."""
        return self._keys.contains(asked, not_before)

    def next_positions(self, streams: pa.Array) -> Positions:
        """As :class:`DedupIndex` has it."""
        known, kept = self._next, self._kept
        return np.array([known[s] if s in known else kept.next_position(s) for s in streams.to_pylist()], np.int64)

    def stored(self, added: Added) -> None:
        """As :class:`DedupIndex` has it."""
        self._next.update(zip(added.streams.to_pylist(), added.next_positions.tolist(), strict=True))
        self.next_global = added.next_global
        self._keys.add(added.keys, np.full(len(added.keys), added.inserted_at, dtype=np.int64))


class TableIndex:
    """Nothing is held: each batch's keys are joined with the table."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri
        self._kept = read_heads(uri)
        newest = read_messages(spark, uri).agg(F.max("global_position")).collect()[0][0]
        self.next_global = max(self._kept.next_global, FIRST_GLOBAL_POSITION if newest is None else newest + 1)

    def contains(self, asked: HashedIds, not_before: int | None) -> Flags:
        """As :class:`DedupIndex` has it."""
        wanted = self._spark.createDataFrame(pa.table({"message_id": asked.ids}))
        held = read_messages(self._spark, self._uri)
        if not_before is not None:
            held = held.where(F.unix_micros("inserted_at") >= F.lit(not_before))
        found = held.join(F.broadcast(wanted.distinct()), "message_id", "left_semi").select("message_id").toArrow()
        flags: Flags = pc.is_in(asked.ids, value_set=found["message_id"].combine_chunks()).to_numpy(
            zero_copy_only=False
        )
        return flags

    def next_positions(self, streams: pa.Array) -> Positions:
        """As :class:`DedupIndex` has it."""
        asked = self._spark.createDataFrame(pa.table({"stream_name": streams}))
        heads = _heads_of_messages(read_messages(self._spark, self._uri), asked)
        held = dict(zip(heads["stream_name"].to_pylist(), heads["next_position"].to_pylist(), strict=True))
        return np.array([max(held.get(s, 0), self._kept.next_position(s)) for s in streams.to_pylist()], dtype=np.int64)

    def stored(self, added: Added) -> None:
        """As :class:`DedupIndex` has it; the table itself knows the rest."""
        self.next_global = added.next_global


def _heads_of_messages(messages: DataFrame, streams: DataFrame | None) -> pa.Table:
    """Columns stream_name, next_position, next_global_position; of some streams or of all."""
    if streams is not None:
        messages = messages.join(F.broadcast(streams), "stream_name", "left_semi")
    return (
        messages.groupBy("stream_name")
        .agg(
            (F.max("position") + 1).alias("next_position"),
            (F.max("global_position") + 1).alias("next_global_position"),
        )
        .toArrow()
    )


def _keys_by_spark(spark: SparkSession, uri: str) -> KeyIndex:
    keys = read_messages(spark, uri).select(
        F.xxhash64("message_id").alias("hash"), "message_id", F.unix_micros("inserted_at").alias("inserted_at")
    )
    found, index = keys.toArrow(), KeyIndex()
    if found.num_rows:
        ids = HashedIds.of(found["hash"].to_numpy(), found["message_id"].combine_chunks())
        index.add(ids, found["inserted_at"].to_numpy())
    return index


def _read_here(uri: str) -> pa.Table:
    columns = ["message_id", "inserted_at", "stream_name", "position", "global_position"]
    return open_table(uri, "messages").to_pyarrow_dataset().to_table(columns)


def _keys_of_few(messages: pa.Table) -> KeyIndex:
    inserted_at = messages["inserted_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return KeyIndex(pa.table([messages["message_id"].cast(pa.large_string()), inserted_at], schema=KEYS))


def _heads_of_few(messages: pa.Table) -> pa.Table:
    newest = messages.group_by("stream_name").aggregate([("position", "max"), ("global_position", "max")])
    last = [pc.add(newest[name], 1) for name in ("position_max", "global_position_max")]
    return pa.table([newest["stream_name"], *last], ["stream_name", "next_position", "next_global_position"])
