"""How fast an ingest takes records in at most: a batch is taken whole, and the next one waits for its turn."""

import time
from collections.abc import Callable
from datetime import timedelta

from messagestore_jobs.ingest.control import Control

_LOOK_AGAIN_SECONDS = 0.25


class Throttle:
    """Keeps to a rate of records a second; None is no limit."""

    def __init__(
        self,
        messages_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = messages_per_second, clock, sleep
        self._due = clock()

    def taken(self, records: int) -> None:
        """So many records have been taken in; time that was not used is lost."""
        if self._rate is not None:
            self._due += records / self._rate

    def stopped(self, control: Control) -> bool:
        """Wait until the next batch may begin; true where the run was stopped first."""
        while (left := self._due - self._clock()) > 0:
            if control.stopped(timedelta(0)):
                return True
            self._sleep(min(left, _LOOK_AGAIN_SECONDS))
        self._due = self._clock()
        return control.stopped(timedelta(0))
