"""Batches of one source: written down first, in force once the commit on ``messages`` has their number."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from messagestore_core.store.delta_log import committed_batch
from messagestore_core.store.handle import Store

_Batch = TypeVar("_Batch")


class ReadBatches(ABC, Generic[_Batch]):
    """What one source's batches have read, by a table of the store."""

    def __init__(self, store: Store, source_id: str) -> None:
        self._store, self._source_id = store, source_id

    @property
    @abstractmethod
    def last_batch(self) -> int:
        """The last batch that was written down; 0 before the first."""

    @abstractmethod
    def planned(self, number: int) -> _Batch | None:
        """A batch as it was written down; None where nothing of it is left."""

    def committed(self) -> int:
        """The last batch that is in the store; 0 before the first."""
        return committed_batch(self._store, self._source_id)

    def next_number(self) -> int:
        """Of the next batch. Delta passes over numbers that it has seen, also where the record of them was lost."""
        return max(self.last_batch, self.committed()) + 1

    def cut_off(self) -> _Batch | None:
        """The batch that was written down and never committed."""
        return self.planned(self.last_batch) if self.last_batch > self.committed() else None
