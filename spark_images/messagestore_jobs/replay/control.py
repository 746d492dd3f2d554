"""What may be changed while a replay runs: whether it goes on, and how fast."""

import time
from collections.abc import Callable
from typing import Protocol

from messagestore_jobs.contract.run_report import ReplayOutcome

_LOOK_AGAIN_SECONDS = 0.25


class Control(Protocol):
    """One a run; asked between chunks and while the rate limit is waited for."""

    def suspended(self) -> bool:
        """Whether to stop after the chunk under way."""

    def messages_per_second(self) -> float | None:
        """The rate limit of this moment; None is no limit."""

    def reached(self, outcome: ReplayOutcome) -> None:
        """Hear how far the replay is, after each chunk."""


class Unattended:
    """Nobody changes anything: the rate limit of the document, to the end."""

    def __init__(self, messages_per_second: float | None) -> None:
        self._rate = messages_per_second

    def suspended(self) -> bool:
        """Never."""
        return False

    def messages_per_second(self) -> float | None:
        """Always the same."""
        return self._rate

    def reached(self, outcome: ReplayOutcome) -> None:
        """Pass over it."""


class Pace:
    """Lets messages go no faster than the rate limit, by a clock that never goes back.

    A chunk goes when all of its messages could have gone one by one, so that at no time more have gone than the
    limit allows.
    """

    def __init__(
        self,
        control: Control,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._control, self._clock, self._sleep = control, clock, sleep
        self._due = clock()

    def wait(self, messages: int) -> bool:
        """Wait until this many more may go; false when the replay was suspended first."""
        while (rate := self._control.messages_per_second()) is not None:
            due = self._due + messages / rate
            left = due - self._clock()
            if left <= 0:
                # Time that was not used is lost but for one chunk's, or a pause would end in a burst.
                self._due = max(due, self._clock() - messages / rate)
                return True
            self._sleep(min(left, _LOOK_AGAIN_SECONDS))
            if self._control.suspended():
                return False
        self._due = self._clock()
        return True
