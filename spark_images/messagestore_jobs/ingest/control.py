"""Who may end a continuous ingest, and when; and how fast it takes records in at most.

A batch is taken whole, and the next one waits for its turn.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from messagestore_jobs.contract.run_report import IngestOutcome

_LOOK_AGAIN_SECONDS = 0.25


class Control(Protocol):
    """One a run; asked between batches, and while more input is waited for."""

    def stopped(self, wait: timedelta) -> bool:
        """Whether to stop now; waits up to ``wait`` to be told."""

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Hear after each batch, and each look for more, how far the run is; ``tell`` looks at the tables for it."""

    def between_batches(self) -> None:
        """Do what else is to be done with the store, while no batch is under way."""


class Unattended:
    """Nobody ends the run: it takes in what has arrived when it starts."""

    def stopped(self, wait: timedelta) -> bool:
        """Not while there is something to take in; at once where more would have to be waited for."""
        return wait > timedelta(0)

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Pass over it."""

    def between_batches(self) -> None:
        """Nothing else is asked for."""


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
