"""Indexes of stores, and stores that change under them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import Transaction
from pyspark.sql import SparkSession

from messagestore_core.clock import microseconds
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.schemas import MESSAGES
from messagestore_jobs.index.keys import Hasher, Keys
from messagestore_jobs.index.read import Added
from messagestore_jobs.index.store_index import StoreIndex
from support.stores import START, add_rows, kept_heads, message, remove_rows

OFTEN = {"SAVE_KEYS": 5, "SAVE_KEYS_AT_END": 2, "SAVE_COMMITS_AT_END": 3}
"""Settings of the index's module, so that it is written even for few keys."""
SOURCE = "own"
SECOND = timedelta(seconds=1)


@dataclass
class Ingested:
    """A store, and a run's index of it."""

    spark: SparkSession
    store: HeldStore
    index: StoreIndex
    batches: int = 0

    @staticmethod
    def opened(spark: SparkSession, store: HeldStore, batches: int = 0) -> "Ingested":
        return Ingested(spark, store, StoreIndex(spark, store), batches)

    def batch(self, ids: Iterable[str], streams: Iterable[str], at: datetime) -> None:
        """Commit a batch, and add it to the index."""
        self.batches += 1
        told = append(self.store, list(ids), list(streams), at, self.index.next_global, (SOURCE, self.batches))
        self.index.stored(
            Added(
                batch=(SOURCE, self.batches),
                ids=Hasher(self.index.key).keys(told["message_id"].to_pylist()),
                inserted_at=microseconds(at),
                streams=pa.array(sorted(set(told["stream_name"].to_pylist())), pa.string()),
                next_positions=np.array(
                    [next_position(self.store, name) for name in sorted(set(told["stream_name"].to_pylist()))], np.int64
                ),
                next_global=self.index.next_global + told.num_rows,
            )
        )

    def says(self, ids: list[str], not_before: int | None = None) -> set[str]:
        """Which of the ids are in the store, according to the index."""
        found = self.index.contains(asked(self.index, ids), not_before)
        return {name for name, there in zip(ids, found.tolist(), strict=True) if there}


def asked(index: StoreIndex, ids: list[str]) -> Keys:
    return Hasher(index.key).keys(ids)


def append(
    store: HeldStore, ids: list[str], streams: list[str], at: datetime, first: int, batch: tuple[str, int] | None = None
) -> pa.Table:
    """Commit rows, as a batch of a source or as another writer."""
    heads: dict[str, int] = {}
    rows: list[dict[str, Any]] = []
    for number, (name, stream) in enumerate(zip(ids, streams, strict=True), first):
        position = heads.get(stream, next_position(store, stream))
        heads[stream] = position + 1
        rows.append(message(number, message_id=name, stream_name=stream, position=position, inserted_at=at))
    table = pa.Table.from_pylist(rows, schema=MESSAGES)
    add_rows(store, "messages", table, CommitNote(run="ingest"), *([Transaction(*batch)] if batch else []))
    return table


def _messages(store: Store) -> list[dict[str, Any]]:
    return store.table("messages").to_pyarrow_table().to_pylist()


def next_position(store: Store, stream: str) -> int:
    """The next position, from the table and from heads that purges have raised."""
    there = [row["position"] + 1 for row in _messages(store) if row["stream_name"] == stream]
    return max([kept_heads(store).next_position(stream), *there])


def remove(store: HeldStore, ids: Iterable[str]) -> None:
    """Raise heads, then remove rows, as a purge does."""
    names = sorted({row["stream_name"] for row in _messages(store)})
    streams = {
        "stream_name": pa.array(names, pa.string()),
        "next_position": pa.array([next_position(store, name) for name in names], pa.int64()),
    }
    last = max([0, *(row["global_position"] for row in _messages(store))])
    raise_heads(store, pa.table(streams), last + 1)
    listed = ", ".join(f"'{name}'" for name in ids) or "''"
    remove_rows(store.uri, "messages", f"message_id IN ({listed})")


def newest(store: Store) -> dict[str, int]:
    """When each id in the store was last inserted, in microseconds."""
    found: dict[str, int] = {}
    for row in _messages(store):
        found[row["message_id"]] = max(microseconds(row["inserted_at"]), found.get(row["message_id"], 0))
    return found


def day(number: int) -> datetime:
    return START + timedelta(days=number)
