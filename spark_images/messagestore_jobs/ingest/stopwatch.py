"""How long the stages of a batch take."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from messagestore_core.contract.run_report import BatchTimes
from messagestore_core.store.files import Batch
from messagestore_jobs.source.records import Planned


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

    def times(self, batch: Planned, now: datetime) -> BatchTimes:
        """The times of a batch that was committed at ``now``."""
        seconds = {f"{stage}_seconds": took for stage, took in self._laps.items()}
        return BatchTimes(**seconds, waited_seconds=_waited(batch, now))


def _waited(batch: Planned, now: datetime) -> float | None:
    if not isinstance(batch, Batch):
        return None
    arrived = min((one.file.modified_at for one in batch.ranges), default=None)
    return None if arrived is None else round(max(0.0, (now - arrived.astimezone(UTC)).total_seconds()), 3)
