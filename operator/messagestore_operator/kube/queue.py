"""The work queue: it has each key once, and gives it to only one worker at a time."""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


HEAD_START = 60.0
"""How many seconds earlier first keys count as due; other keys wait for them no longer than that."""


@dataclass(order=True, slots=True)
class _Due(Generic[K]):
    rank: float
    when: float
    key: K = field(compare=False)


class WorkQueue(Generic[K]):
    """Keys with the times when they are due.

    A key that is added while a worker has it becomes due again when the worker is done.

    Args:
        backoff_base: seconds before the first retry; each failure in a row doubles it.
        backoff_max: the longest wait between retries.
    """

    def __init__(
        self, backoff_base: float = 0.5, backoff_max: float = 60, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._base, self._max = backoff_base, backoff_max
        self._clock = clock
        self._due: dict[K, float] = {}
        self._first: set[K] = set()
        self._later: list[_Due[K]] = []
        self._ready: list[_Due[K]] = []
        self._taken: set[K] = set()
        self._failures: dict[K, int] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._waiting_for_first: deque[asyncio.Future[None]] = deque()
        self._turn = asyncio.Lock()

    def add(self, key: K, delay: float = 0, *, first: bool = False) -> None:
        """Enqueue a key, due after a delay; an earlier due time stays.

        Args:
            delay: in seconds.
            first: before keys that became due up to ``HEAD_START`` earlier.
        """
        when, known = self._clock() + max(0.0, delay), self._due.get(key)
        hurries = first and key not in self._first
        if known is not None and known <= when:
            if not hurries:
                return
            when = known
        if first:
            self._first.add(key)
        self._due[key] = when
        heapq.heappush(self._later, _Due(when, when, key))
        self._wake()

    async def get(self, *, first: bool = False) -> K:
        """Wait for a key that is due; ``done`` must follow.

        Each key comes in a round of the event loop of its own. Most work needs no request, so that workers would
        otherwise go from key to key, and no watch would be read until none is due.

        Args:
            first: wait only for a key that was added as first, so that it finds a worker however many others wait.
        """
        async with self._turn:
            await asyncio.sleep(0)
        while True:
            key, wait = self._next(first)
            if key is not None:
                if self._ready:
                    self._wake()
                return key
            # First keys are due at once, so there is no time to wait for.
            await (self._woken(None, self._waiting_for_first) if first else self._woken(wait, self._waiting))

    def done(self, key: K, *, failed: bool = False) -> float:
        """Give a key back; a failed one becomes due again. Returns the seconds until then."""
        self._taken.discard(key)
        delay = 0.0
        if failed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(self._max, self._base * 2 ** min(failures - 1, 20))
            self.add(key, delay)
        else:
            self._failures.pop(key, None)
        self._wake()
        return delay

    def forget(self, key: K) -> None:
        """Drop a key."""
        self._due.pop(key, None)
        self._first.discard(key)
        self._failures.pop(key, None)

    @property
    def depth(self) -> int:
        """The number of due keys that no worker has; may be read in any thread."""
        now = self._clock()
        return sum(1 for key, when in list(self._due.items()) if when <= now and key not in self._taken)

    @property
    def lateness(self) -> float:
        """How long the longest due key has waited for a worker, in seconds; may be read in any thread."""
        now = self._clock()
        waiting = (now - when for key, when in list(self._due.items()) if key not in self._taken)
        return max(0.0, max(waiting, default=0.0))

    def _next(self, first: bool) -> tuple[K | None, float | None]:
        """A due key, or the seconds to wait for one; keys that workers have don't count."""
        now = self._clock()
        while self._later and (self._later[0].when <= now or self._is_old(self._later[0])):
            entry = heapq.heappop(self._later)
            if not self._is_old(entry):
                rank = entry.when - (HEAD_START if entry.key in self._first else 0)
                heapq.heappush(self._ready, _Due(rank, entry.when, entry.key))
        key = self._take(first)
        if key is not None:
            return key, None
        return None, self._later[0].when - now if self._later else None

    def _take(self, first: bool) -> K | None:
        """The first due key that no worker has."""
        blocked, key = list[_Due[K]](), None
        while self._ready and key is None:
            entry = heapq.heappop(self._ready)
            if self._is_old(entry):
                continue
            if first and entry.key not in self._first:
                blocked.append(entry)
                break
            if entry.key in self._taken:
                blocked.append(entry)
            else:
                key = entry.key
        for entry in blocked:
            heapq.heappush(self._ready, entry)
        if key is not None:
            del self._due[key]
            self._first.discard(key)
            self._taken.add(key)
        return key

    def _is_old(self, entry: _Due[K]) -> bool:
        return self._due.get(entry.key) != entry.when

    async def _woken(self, seconds: float | None, waiting: deque[asyncio.Future[None]]) -> None:
        """Wait for a change, or for ``seconds``."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _set, woken) if seconds is not None else None
        waiting.append(woken)
        try:
            await woken
        finally:
            if timer is not None:
                timer.cancel()
            with suppress(ValueError):
                waiting.remove(woken)

    def _wake(self) -> None:
        """Wake one waiting worker; one that waits only for first keys only if no other waits."""
        for waiting in (self._waiting, self._waiting_for_first):
            while waiting:
                woken = waiting.popleft()
                if not woken.done():
                    woken.set_result(None)
                    return


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
