"""CloudEvents that an earlier release stored, with the event's id alone as message id.

As they lack their source, they are recognized by id, stream, type and the payload's digest; scrubbed ones by id and
stream; erased ones by their id, as nothing else of them is left.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.store.delta_log import FIRST_GLOBAL_POSITION
from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import Erased, open_erased
from messagestore_jobs.index.keys import Flags, Keys
from messagestore_jobs.index.read import hashed
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.ingest.envelope import wire
from messagestore_jobs.rows.messages import read_messages


def events_since(task: IngestTask, noted: int | None, next_global: int) -> int | None:
    """The first global position since which source and id identify CloudEvents; None while there were none.

    ``noted`` is the value in the last commit.
    """
    return next_global if noted is None and task.envelope.format == "CloudEvents" else noted


def needs_lookup(task: IngestTask, since: int | None) -> bool:
    """Whether the store may have such events."""
    return task.envelope.format == "CloudEvents" and since is not None and since > FIRST_GLOBAL_POSITION


def earlier_columns(spark: SparkSession, key: bytes) -> tuple[Column, ...]:
    """The columns that identify such an event, for judged records; ``key`` is the index's."""
    event_id = wire("eventId")
    return (
        F.col(event_id).alias("event_id"),
        hashed(spark, key, event_id).alias("event_hash"),
        _content().alias("event_content"),
    )


def _content() -> Column:
    return F.xxhash64("type", "payload_sha256")


@dataclass(frozen=True)
class EarlierEvents:
    """Such events of one store, below global position ``since``."""

    spark: SparkSession
    store: Store
    since: int
    index: StoreIndex

    @cached_property
    def _erased(self) -> Erased:
        return open_erased(self.store, before=self.since)

    def contains(self, narrow: pa.Table, not_before: int | None) -> Flags:
        """Which records, with ``earlier_columns``, are such events in the store, or erased ones.

        Rows from before ``not_before``, in microseconds, don't count.
        """
        ids = narrow["event_id"].combine_chunks()
        known: Flags = self._erased.contains(ids)
        candidates = self.index.contains(Keys.of_column(narrow["event_hash"]), not_before)
        rows = np.flatnonzero(candidates & ~known)
        if len(rows):
            events = narrow.select(["event_id", "stream_name", "event_content"]).take(pa.array(rows))
            stored = self._stored(events["event_id"])
            keys = zip(*(events[name].to_pylist() for name in events.column_names), strict=True)
            known[rows] = [(*one[:2], None) in stored or one in stored for one in keys]
        return known

    def _stored(self, ids: pa.ChunkedArray) -> set[tuple[str, str, int | None]]:
        """Id, stream and content of stored events; None for content that was scrubbed."""
        wanted = F.broadcast(self.spark.createDataFrame(pa.table({"message_id": pc.unique(ids)})))
        rows = (
            read_messages(self.spark, self.store)
            .where(F.col("global_position") < self.since)
            .join(wanted, "message_id", "left_semi")
            .select("message_id", "stream_name", F.when(F.col("scrubbed_at").isNull(), _content()).alias("content"))
            .toArrow()
        )
        return set(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True))
