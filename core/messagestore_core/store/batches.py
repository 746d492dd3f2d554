"""Batches of one source: planned first, in force once a commit on ``messages`` has their number."""

from abc import ABC, abstractmethod
from collections.abc import Set
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.store.dead_letters import withdraw
from messagestore_core.store.delta_log import committed_batch
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.pending_updates import forget_waiting
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import literal

REPLAYED = "replay:"
"""How the ids of replays as sources begin."""
_Batch = TypeVar("_Batch")


def batch_id(source_id: str, number: int) -> str:
    """The id of a batch, in column ``batch`` of its dead letters."""
    return f"{source_id}/{number}"


class ReadBatches(ABC, Generic[_Batch]):
    """What one source's batches have read, kept in a table of the store."""

    _table: str
    """The table's name."""

    def __init__(self, store: Store, source_id: str) -> None:
        self._store, self._source_id = store, source_id
        self._others: dict[str, int] = {}

    @property
    def _held(self) -> HeldStore:
        """The store, to write to it."""
        if not isinstance(self._store, HeldStore):
            raise TypeError(f"{self._store.uri} is only read")
        return self._store

    @property
    @abstractmethod
    def last_batch(self) -> int:
        """The number of the last planned batch; 0 before the first."""

    @abstractmethod
    def planned(self, number: int) -> _Batch | None:
        """A batch as it was planned; None where nothing of it is left."""

    def committed(self) -> int:
        """The number of the last committed batch; 0 before the first."""
        return committed_batch(self._store, self._source_id)

    def next_number(self) -> int:
        """The number of the next batch; never one that was committed, even if plans were lost: Delta would skip it."""
        return max(self.last_batch, self.committed()) + 1

    def uncommitted(self) -> _Batch | None:
        """The batch that was planned and not committed; None without one."""
        return self.planned(self.last_batch) if self.last_batch > self.committed() else None

    def left_behind(self, own: Set[str]) -> dict[str, int]:
        """The last committed batch of each source that planned more, and that the stream no longer has.

        Replays don't count, as each repeats its own batches.

        Args:
            own: the ids of the stream's sources.
        """
        others = {source: self._others[source] for source in self._others.keys() - own}
        committed = {source: committed_batch(self._store, source) for source in others}
        return {source: number for source, number in committed.items() if number < others[source]}

    def withdraw_left_behind(self, own: Set[str]) -> None:
        """Withdraw what such sources set aside and let wait since, then forget these plans, durably.

        If the stream gets one of them back, it reads the same anew.
        """
        for source, committed in self.left_behind(own).items():
            since = (pc.field("source_id") == source) & (pc.field("batch") > committed)
            rows = scan(self._store.table(self._table), ["batch"], since).read_all()
            for number in rows["batch"].unique().to_pylist():
                withdraw(self._held, batch_id(source, number))
                forget_waiting(self._held, source, number)
            with self._held.step("plan-forgotten"):
                self._held.delete_rows(self._table, f"source_id = {literal(source)} and batch > {committed}")
            del self._others[source]

    def _see_others(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Note the last plans of other sources in rows of the table."""
        source = pc.field("source_id")
        others = rows.filter((source != self._source_id) & ~pc.starts_with(source, REPLAYED))
        if others.num_rows:
            plans = pa.table({name: others[name] for name in ("source_id", "batch")})
            for last in plans.group_by("source_id").aggregate([("batch", "max")]).to_pylist():
                self._others[last["source_id"]] = max(last["batch_max"], self._others.get(last["source_id"], 0))
