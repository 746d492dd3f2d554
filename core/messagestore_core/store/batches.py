"""Batches of one source: planned first, in force once a commit on ``messages`` has their number."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from messagestore_core.store.delta_log import committed_batch
from messagestore_core.store.handle import Store

_Batch = TypeVar("_Batch")


class ReadBatches(ABC, Generic[_Batch]):
    """What one source's batches have read, kept in a table of the store."""

    def __init__(self, store: Store, source_id: str) -> None:
        self._store, self._source_id = store, source_id

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

    def cut_off(self) -> _Batch | None:
        """The batch that was planned and not committed; None without one."""
        return self.planned(self.last_batch) if self.last_batch > self.committed() else None
