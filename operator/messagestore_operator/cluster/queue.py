"""What is to be looked at, and when: each once however often it is asked for, and by one worker at a time."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(order=True)
class _Due(Generic[K]):
    when: float
    key: K = field(compare=False)


class WorkQueue(Generic[K]):
    """Keys with the time from which they are due.

    A key that is asked for again while a worker has it becomes due again when that worker is done.

    Args:
        backoff_base: seconds before the first retry; doubled by each failure in a row.
        backoff_max: the longest wait between retries.
        clock: seconds.
    """

    def __init__(
        self, backoff_base: float = 0.5, backoff_max: float = 60, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._base, self._max = backoff_base, backoff_max
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[_Due[K]] = []
        self._taken: set[K] = set()
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, delay: float = 0) -> None:
        """Have a key looked at, in so many seconds; an earlier time that was asked for stays."""
        when = self._clock() + max(0.0, delay)
        if key in self._due and self._due[key] <= when:
            return
        self._due[key] = when
        heapq.heappush(self._heap, _Due(when, key))
        self._changed.set()

    async def get(self) -> K:
        """Wait for a key that is due; `done` must follow."""
        while True:
            self._changed.clear()
            key, wait = self._next()
            if key is not None:
                return key
            try:
                await asyncio.wait_for(self._changed.wait(), wait)
            except TimeoutError:
                continue

    def done(self, key: K, *, failed: bool = False) -> float:
        """Give a key back; one that failed is due again after a while, and the seconds until then are returned."""
        self._taken.discard(key)
        delay = 0.0
        if failed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(self._max, self._base * 2 ** min(failures - 1, 20))
            self.add(key, delay)
        else:
            self._failures.pop(key, None)
        self._changed.set()
        return delay

    def forget(self, key: K) -> None:
        """Nothing is to be done about a key any more."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    @property
    def depth(self) -> int:
        """Keys that are due and that no worker has."""
        now = self._clock()
        return sum(1 for key, when in self._due.items() if when <= now and key not in self._taken)

    @property
    def lateness(self) -> float:
        """How long the key that has been due the longest waits for a worker, in seconds."""
        now = self._clock()
        waiting = (now - when for key, when in self._due.items() if key not in self._taken)
        return max(0.0, max(waiting, default=0.0))

    def _next(self) -> tuple[K | None, float | None]:
        """A key that is due, or the seconds to wait for one; those of taken keys are not waited for."""
        now, blocked = self._clock(), list[_Due[K]]()
        found: K | None = None
        wait: float | None = None
        while self._heap:
            entry = self._heap[0]
            if self._due.get(entry.key) != entry.when:
                heapq.heappop(self._heap)
                continue
            if entry.when > now:
                wait = entry.when - now
                break
            heapq.heappop(self._heap)
            if entry.key in self._taken:
                blocked.append(entry)
                continue
            found = entry.key
            break
        for entry in blocked:
            heapq.heappush(self._heap, entry)
        if found is not None:
            del self._due[found]
            self._taken.add(found)
        return found, wait
