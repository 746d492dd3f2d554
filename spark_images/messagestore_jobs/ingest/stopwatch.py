"""How long the stages of a batch take, and how long its records have waited."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from messagestore_core.contract.ingest import BatchTimes


class Stopwatch:
    """Counts the seconds of one batch after the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        self._laps: dict[str, float] = {}
        self._since = self._clock()

    def lap(self, stage: str) -> None:
        """A stage of the batch ends, and the next one begins."""
        now = self._clock()
        self._laps[stage], self._since = round(now - self._since, 3), now

    def times(self) -> BatchTimes:
        """The times of a batch that was committed."""
        return BatchTimes(**{f"{stage}_seconds": took for stage, took in self._laps.items()})


def waited(arrived: datetime | None, committed: datetime) -> float | None:
    """The seconds between two times, which different clocks may have told; None without the first."""
    return None if arrived is None else round(max(0.0, (committed - arrived.astimezone(UTC)).total_seconds()), 3)
