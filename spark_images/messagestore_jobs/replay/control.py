"""When a replay stops, and how fast it sends."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from typing_extensions import override

from messagestore_core.contract.replay import ReplayOutcome

_LOOK_AGAIN_SECONDS = 0.25


class ReplayControl(Protocol):
    """Controls one run: when it stops, and how fast it sends.

    It is asked between chunks, and while the run waits for its rate limit.
    """

    def suspended(self) -> bool:
        """Whether to stop after the chunk under way."""

    def stopped(self, wait: timedelta) -> bool:
        """Whether a continuous replay is to stop; waits up to ``wait`` for that, while there is nothing to send."""

    def messages_per_second(self) -> float | None:
        """The rate limit at this moment; None: no limit."""

    def reached(self, outcome: ReplayOutcome) -> None:
        """Called with the outcome so far, after each chunk."""
        return


class WithinLimits(ReplayControl):
    """A part of a run, within the limits of the whole; as its control, it says what becomes of what is reached."""

    def __init__(self, whole: ReplayControl) -> None:
        self._whole = whole

    @override
    def suspended(self) -> bool:
        return self._whole.suspended()

    @override
    def stopped(self, wait: timedelta) -> bool:
        return self._whole.stopped(wait)

    @override
    def messages_per_second(self) -> float | None:
        return self._whole.messages_per_second()


class ReplayToEnd(ReplayControl):
    """Lets a run send to its end, with the rate limit of its document."""

    def __init__(self, messages_per_second: float | None) -> None:
        self._rate = messages_per_second

    @override
    def suspended(self) -> bool:
        return False

    @override
    def stopped(self, wait: timedelta) -> bool:
        """True where the run would have to wait for more, false before."""
        return wait > timedelta(0)

    @override
    def messages_per_second(self) -> float | None:
        return self._rate


class Pace:
    """Keeps the rate limit, by a clock that never goes back.

    A chunk may go when all of its messages could have gone one by one, so that the limit is never exceeded.
    """

    def __init__(
        self,
        control: ReplayControl,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._control, self._clock, self._sleep = control, clock, sleep
        self._due = clock()

    def wait(self, messages: int) -> bool:
        """Wait until this many more messages may go; false if the replay was suspended before."""
        while (rate := self._control.messages_per_second()) is not None:
            due = self._due + messages / rate
            left = due - self._clock()
            if left <= 0:
                # Unused time beyond one chunk's is lost; otherwise a burst would follow a pause.
                self._due = max(due, self._clock() - messages / rate)
                return True
            self._sleep(min(left, _LOOK_AGAIN_SECONDS))
            if self._control.suspended():
                return False
        self._due = self._clock()
        return True
