"""Which runs may start now: within the limits of the settings, at a bounded rate, fair among namespaces."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import islice

from messagestore_operator.status.words import count

_AGAIN = timedelta(minutes=1)
"""The end of a run triggers the next ones; this interval is for changes without a trigger."""


@dataclass(frozen=True)
class RunBounds:
    """Maximum concurrent runs: in all, in a namespace and at a storage endpoint. None: no limit."""

    in_all: int | None = None
    in_namespace: int | None = None
    at_endpoint: int | None = None
    starts_per_second: float = 40.0


@dataclass(frozen=True)
class RunSlot:
    """A current run, with what limits count it by."""

    holder: str
    """``<namespace>/<run>``."""
    resource: tuple[str, str, str]
    """Kind, namespace and name of its resource."""
    endpoints: frozenset[str]
    """The object stores of the tables that it works on."""
    since: datetime
    """When it was reserved."""
    launched: bool = False

    @property
    def namespace(self) -> str:
        """The namespace of the resource."""
        return self.resource[1]


class ActiveRuns:
    """Runs that were launched, or are being launched, by their holders, and counted by what limits them."""

    def __init__(self, slots: Iterable[RunSlot] = ()) -> None:
        self._slots: dict[str, RunSlot] = {}
        self.in_namespace: Counter[str] = Counter()
        self.at_endpoint: Counter[str] = Counter()
        for slot in slots:
            self.add(slot)

    def __contains__(self, holder: str) -> bool:
        return holder in self._slots

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: RunSlot) -> None:
        """Count one more run, once."""
        if slot.holder not in self._slots:
            self._slots[slot.holder] = slot
            self.in_namespace[slot.namespace] += 1
            self.at_endpoint.update(slot.endpoints)

    def remove(self, holder: str) -> None:
        """Count a run no longer."""
        slot = self._slots.pop(holder, None)
        if slot is not None:
            self.in_namespace[slot.namespace] -= 1
            self.at_endpoint.subtract(slot.endpoints)

    def copy(self) -> ActiveRuns:
        """The same runs; what is counted there doesn't count here."""
        other = ActiveRuns()
        other._slots = self._slots.copy()
        other.in_namespace, other.at_endpoint = self.in_namespace.copy(), self.at_endpoint.copy()
        return other


@dataclass(frozen=True)
class RunQueue:
    """The current runs of all resources."""

    under_way: ActiveRuns = field(default_factory=ActiveRuns)
    waiting: tuple[RunSlot, ...] = ()
    """Runs that wait for a slot. A run that waits for its table is not among them: it delays no other."""
    starts: int = 1_000_000
    """How many runs may be started now."""
    bounds: RunBounds = RunBounds()

    def taken(self, slot: RunSlot) -> RunQueue:
        """The queue with one more launched run."""
        under_way = self.under_way.copy()
        under_way.add(slot)
        return replace(self, under_way=under_way, starts=self.starts - 1)


@dataclass(frozen=True)
class Full:
    """No slot is free: why, and when to ask again."""

    why: str
    until: datetime


def full(queue: RunQueue, slot: RunSlot, now: datetime) -> Full | None:
    """Why a run can't start now; None if it can."""
    if slot.holder in queue.under_way:
        return None
    active = queue.under_way.copy()
    for before, other in enumerate(_in_turn({*queue.waiting, slot}, active, queue.bounds)):
        if other.holder == slot.holder:
            if before < queue.starts:
                return None
            rate = queue.bounds.starts_per_second
            seconds = (before + 1 - queue.starts) / rate
            return Full(f"{rate:g} runs may start each second (runs.startsPerSecond)", now + timedelta(seconds=seconds))
    return Full(_reached(active, slot, queue.bounds) or "other runs come first", now + _AGAIN)


def startable(queue: RunQueue) -> Iterator[RunSlot]:
    """Waiting runs that can start now."""
    # If the queue is long, only as many are sorted as can start.
    yield from islice(_in_turn(queue.waiting, queue.under_way.copy(), queue.bounds), queue.starts)


def _reached(active: ActiveRuns, slot: RunSlot, bounds: RunBounds) -> str | None:
    """The limit that one more run would exceed."""
    if bounds.in_all is not None and len(active) >= bounds.in_all:
        return f"{count(bounds.in_all, 'run')} may run at once (runs.atOnce.inAll)"
    most = bounds.in_namespace
    if most is not None and active.in_namespace[slot.namespace] >= most:
        return f"{count(most, 'run')} of a namespace may run at once (runs.atOnce.inNamespace)"
    most = bounds.at_endpoint
    if most is not None and any(active.at_endpoint[endpoint] >= most for endpoint in slot.endpoints):
        return f"{count(most, 'run')} at a storage endpoint may run at once (runs.atOnce.atEndpoint)"
    return None


def _in_turn(slots: Iterable[RunSlot], active: ActiveRuns, bounds: RunBounds) -> Iterator[RunSlot]:
    """The slots that the limits allow, in order; each is counted in ``active``.

    The namespace with the fewest runs comes first, so that none can fill the cluster. Within a namespace, and between
    namespaces with equal numbers, the run that was reserved first comes first.
    """
    lines: dict[str, deque[RunSlot]] = defaultdict(deque)
    for slot in sorted(slots, key=lambda one: (one.since, one.holder)):
        lines[slot.namespace].append(slot)
    heads = [(active.in_namespace[name], line[0].since, name) for name, line in lines.items()]
    heapify(heads)
    while heads and (bounds.in_all is None or len(active) < bounds.in_all):
        _, _, name = heappop(heads)
        slot = lines[name].popleft()
        if _reached(active, slot, bounds) is None:
            active.add(slot)
            yield slot
        if lines[name]:
            heappush(heads, (active.in_namespace[name], lines[name][0].since, name))


class Slots:
    """Which current runs are launched, and which are only reserved."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str], tuple[RunSlot, ...]] = {}
        self._reserved: set[str] = set()
        self._active = ActiveRuns()

    def active(self) -> ActiveRuns:
        """The launched runs; for the caller alone."""
        return self._active.copy()

    def is_reserved(self, holder: str) -> bool:
        """Whether a resource's current run, named with its namespace, is not launched yet."""
        return holder in self._reserved

    def replace(self, key: tuple[str, str, str], slots: Iterable[RunSlot] = ()) -> None:
        """Replace the slots of a resource."""
        for slot in self._of.pop(key, ()):
            self._active.remove(slot.holder)
            self._reserved.discard(slot.holder)
        if now := tuple(slots):
            self._of[key] = now
        for slot in now:
            if slot.launched:
                self._active.add(slot)
            else:
                self._reserved.add(slot.holder)
