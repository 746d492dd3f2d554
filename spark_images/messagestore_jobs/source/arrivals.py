"""A source for an ingest: what waits, the next batch, and how much is left."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from messagestore_core.contract.ingest import IngestTask, Lag, Loss
from messagestore_core.store.ended import SeenFiles
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.files import ReadFiles
from messagestore_core.store.offsets import ReadOffsets
from messagestore_jobs.context import Run
from messagestore_jobs.source.records import Planned, verdict_digest

REPLACED = "a file was replaced while it was read"
"""The text in Spark's error if a record is not the one that was judged."""


_Batch = TypeVar("_Batch", bound=Planned)


@dataclass(frozen=True)
class Due:
    """A planned batch; those of its URIs that may have dead letters already were ``read_before``.

    An earlier try of one that is repeated may have written dead letters and claim checks.
    """

    batch: Planned
    read_before: set[str]
    repeated: bool = False


class Arrivals(ABC, Generic[_Batch]):
    """What arrives at one source, for one run. Sizes are in the source's unit: bytes or records."""

    _read: ReadFiles | ReadOffsets
    """What its batches have read."""

    def __init__(self, run: Run, task: IngestTask) -> None:
        self._document, self._store, self.task = run.document, run.store, task
        self._spark, self._progress = run.spark, run.progress

    @abstractmethod
    def list_source(self) -> None:
        """List what the source has now."""

    def seen(self) -> SeenFiles | None:
        """What the last look found, if all of it has been read and stays there; None otherwise, and for topics."""
        return None

    def lines_rest_at(self) -> datetime | None:
        """When the first last line that the last look found unfinished can be read; None: there is none."""
        return None

    @abstractmethod
    def waits(self) -> bool:
        """Whether the last look found anything that is not planned yet."""

    @abstractmethod
    def size(self) -> int:
        """The size of what waits."""

    @abstractmethod
    def uncommitted(self) -> Due | None:
        """The batch that was planned and not committed, to be repeated as it is; None without one."""

    def spec_changed(self, batch: _Batch) -> bool:
        """Whether a planned batch may be judged otherwise by this task than by the one that it was planned for."""
        return batch.verdict_digest != verdict_digest(self._spark, self.task)

    def is_made_again(self, batch: _Batch) -> bool:
        """Whether a part of the source was made again since a batch was planned; files are told apart by themselves."""
        return False

    @abstractmethod
    def reset_verdicts(self, batch: _Batch) -> Due | None:
        """Withdraw what a cut-off batch set aside, then note in its plan that this task judges it, durably.

        Dead letters of what the source no longer has stay, and the batch counts them. None where nothing is left of it.
        """

    def left_behind(self, own: Set[str]) -> Mapping[str, int]:
        """The last committed batch of each source that planned more, and that the stream no longer has."""
        return self._read.left_behind(own)

    def withdraw_left_behind(self, own: Set[str]) -> None:
        """Withdraw what such sources set aside and let wait since, then forget these plans, durably."""
        self._read.withdraw_left_behind(own)

    @abstractmethod
    def next(self) -> Due:
        """Plan the next batch, durably."""

    def note_cut(self, batch: _Batch, uris: set[str]) -> None:
        """Note the URIs of which records were set aside with only a part of their bytes, durably before the commit.

        Nothing of a topic is noted, as no run removes records from it.
        """
        return

    @abstractmethod
    def arrived_at(self, batch: _Batch) -> datetime | None:
        """When the oldest of what a batch has read arrived; None where that can't be found."""

    def taken_in(self, batch: _Batch, records: int) -> None:
        """Note how many records a batch had; offsets show it."""
        return

    @abstractmethod
    def replan(self, batch: _Batch, error: Exception | None = None) -> bool:
        """Plan a batch again that could not be read, without what is gone, or too much; false if it stays the same."""

    @abstractmethod
    def explained(self, error: Exception) -> RunFailedError | None:
        """Why a batch failed; None where the source doesn't know."""

    def planned_anew(self, batch: _Batch, error: Exception) -> Due | None:
        """The batch to read instead of one that could not be read; None if nothing is left of it.

        Raises:
            Exception: the error, explained if possible, if the batch would stay the same.
        """
        if self.replan(batch, error):
            return self.uncommitted()
        why = self.explained(error)
        if why is None:
            raise error
        raise why from error

    def left_out(self) -> RunFailedError | None:
        """Why something that the last look found can never be read; None: nothing, as of topics."""
        return None

    @abstractmethod
    def lag(self) -> Lag:
        """How much waits, and since when."""

    def loss(self) -> Loss | None:
        """What was lost before it was read; None: nothing. A file that is gone before it was read doesn't count."""
        return None


def to_repeat(arrivals: Arrivals[Any], withdraw: Callable[[Planned], None]) -> Due | None:
    """The batch that is to be repeated, judged by the task as it is now; None without one.

    If it is judged anew, ``withdraw`` removes what it wrote besides dead letters.
    """
    due = arrivals.uncommitted()
    if due is None or not (arrivals.spec_changed(due.batch) or arrivals.is_made_again(due.batch)):
        return due
    withdraw(due.batch)
    return arrivals.reset_verdicts(due.batch)


def size_of(batch: Planned) -> int:
    """The size of a batch."""
    return sum(r.end - r.start for r in batch.ranges)
