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


@dataclass(frozen=True)
class RunQueue:
    """The current runs of all resources."""

    under_way: tuple[RunSlot, ...] = ()
    """Runs that were launched, or are being launched."""
    waiting: tuple[RunSlot, ...] = ()
    """Runs that wait for a slot. A run that waits for its table is not among them: it delays no other."""
    starts: int = 1_000_000
    """How many runs may be started now."""
    bounds: RunBounds = RunBounds()

    def taken(self, slot: RunSlot) -> RunQueue:
        """The queue with one more launched run."""
        return replace(self, under_way=(*self.under_way, slot), starts=self.starts - 1)


@dataclass(frozen=True)
class Full:
    """No slot is free: why, and when to ask again."""

    why: str
    until: datetime


def full(queue: RunQueue, slot: RunSlot, now: datetime) -> Full | None:
    """Why a run can't start now; None if it can."""
    if any(slot.holder == other.holder for other in queue.under_way):
        return None
    slots = _Count(queue)
    for before, other in enumerate(_in_turn({*queue.waiting, slot}, slots)):
        if other.holder == slot.holder:
            if before < queue.starts:
                return None
            rate = queue.bounds.starts_per_second
            seconds = (before + 1 - queue.starts) / rate
            return Full(f"{rate:g} runs may start each second (runs.startsPerSecond)", now + timedelta(seconds=seconds))
    return Full(slots.reached(slot) or "other runs come first", now + _AGAIN)


def startable(queue: RunQueue) -> Iterator[RunSlot]:
    """Waiting runs that can start now."""
    # If the queue is long, only as many are sorted as can start.
    yield from islice(_in_turn(queue.waiting, _Count(queue)), queue.starts)


@dataclass
class _Count:
    """Numbers of runs, by limit."""

    queue: RunQueue
    in_all: int = 0
    in_namespace: Counter[str] = field(default_factory=Counter)
    at_endpoint: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for slot in self.queue.under_way:
            self.add(slot)

    def add(self, slot: RunSlot) -> None:
        self.in_all += 1
        self.in_namespace[slot.namespace] += 1
        self.at_endpoint.update(slot.endpoints)

    @property
    def all_reached(self) -> bool:
        """Whether no run at all can start."""
        most = self.queue.bounds.in_all
        return most is not None and self.in_all >= most

    def reached(self, slot: RunSlot) -> str | None:
        """The limit that one more run would exceed."""
        bounds = self.queue.bounds
        if bounds.in_all is not None and self.all_reached:
            return f"{count(bounds.in_all, 'run')} may run at once (runs.atOnce.inAll)"
        most = bounds.in_namespace
        if most is not None and self.in_namespace[slot.namespace] >= most:
            return f"{count(most, 'run')} of a namespace may run at once (runs.atOnce.inNamespace)"
        most = bounds.at_endpoint
        if most is not None and any(self.at_endpoint[endpoint] >= most for endpoint in slot.endpoints):
            return f"{count(most, 'run')} at a storage endpoint may run at once (runs.atOnce.atEndpoint)"
        return None


def _in_turn(slots: Iterable[RunSlot], taken: _Count) -> Iterator[RunSlot]:
    """The slots that the limits allow, in order; each is counted.

    The namespace with the fewest runs comes first, so that none can fill the cluster. Within a namespace, and between
    namespaces with equal numbers, the run that was reserved first comes first.
    """
    lines: dict[str, deque[RunSlot]] = defaultdict(deque)
    for slot in sorted(slots, key=lambda one: (one.since, one.holder)):
        lines[slot.namespace].append(slot)
    heads = [(taken.in_namespace[name], line[0].since, name) for name, line in lines.items()]
    heapify(heads)
    while heads and not taken.all_reached:
        _, _, name = heappop(heads)
        slot = lines[name].popleft()
        if taken.reached(slot) is None:
            taken.add(slot)
            yield slot
        if lines[name]:
            heappush(heads, (taken.in_namespace[name], lines[name][0].since, name))
