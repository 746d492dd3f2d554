"""What arrives at a source, as an ingest run sees it: what waits, the next batch of it, and how much is left."""

from dataclasses import dataclass
from typing import Protocol

from messagestore_core.contract.run_report import Lag, Loss
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.source.records import Planned

REPLACED = "a file was replaced while it was read"
"""How Spark's error says that a record is not the one that was judged."""


@dataclass(frozen=True)
class Due:
    """A batch that has been written down, and those of its URIs that may have dead letters already."""

    batch: Planned
    read_before: set[str]


class Arrivals(Protocol):
    """One a run and source. Sizes are in whatever the source counts: bytes, or records."""

    def look(self) -> None:
        """Ask the source what is there now."""

    def waits(self) -> bool:
        """Whether the last look found anything that has not been planned since."""

    def size(self) -> int:
        """Of what waits."""

    def cut_off(self) -> Due | None:
        """A batch that was written down and never committed: it is done again, the same."""

    def next(self) -> Due:
        """Plan the next batch of what waits, durably."""

    def taken_in(self, batch: Planned, records: int) -> None:
        """Hear how many records a batch had."""

    def replan(self, batch: Planned) -> bool:
        """Plan a batch anew that could not be read, where something of it is gone; false where nothing is."""

    def explained(self, error: Exception) -> RunFailedError | None:
        """Why a batch failed, where the source knows."""

    def lag(self) -> Lag:
        """What waits."""

    def loss(self) -> Loss | None:
        """What was gone before it was read."""


def size_of(batch: Planned) -> int:
    """What a batch reads."""
    return sum(r.end - r.start for r in batch.ranges)
