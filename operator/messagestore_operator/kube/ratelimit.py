"""A token bucket, which limits the requests per second to the API server."""

import asyncio
import time
from collections.abc import Callable

_ROUNDING = 1e-6


class TokenBucket:
    """Lets requests through in order, at a rate with a burst.

    Args:
        rate: requests per second, more than 0.
        burst: requests at once after a pause, at least 1.
    """

    __slots__ = ("_clock", "_due", "_interval", "_slack")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / rate
        self._slack = (burst - 1) * self._interval
        self._clock = clock
        self._due = clock()

    def reserve(self) -> float:
        """Reserve the next request; returns how many seconds to wait for it."""
        now = self._clock()
        due = max(self._due, now)
        self._due = due + self._interval
        return max(0.0, due - self._slack - now)

    @property
    def ready(self) -> int:
        """How many requests need not wait."""
        now = self._clock()
        return max(0, int((self._slack - (max(self._due, now) - now)) / self._interval + 1 + _ROUNDING))

    def take(self) -> bool:
        """Reserve a request if it need not wait; returns whether it did."""
        if max(self._due, self._clock()) - self._slack > self._clock():
            return False
        self.reserve()
        return True

    def pause(self, seconds: float) -> None:
        """Let no request through for ``seconds``, and no burst after that."""
        self._due = max(self._due, self._clock() + seconds + self._slack)

    async def acquire(self) -> None:
        """Wait until a request may be sent."""
        wait = self.reserve()
        if wait > 0:
            await asyncio.sleep(wait)
