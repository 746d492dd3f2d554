"""The operator's access to a cluster, its caches, and which runs are admitted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.lease import TableLeases
from messagestore_operator.cluster.surroundings import Namespaces
from messagestore_operator.decide.actions import CreateRun, Decision
from messagestore_operator.decide.run_queue import RunBounds, RunQueue, RunSlot, startable
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.kube.ratelimit import TokenBucket

_SEEN_SECONDS = 60.0
"""After this time a run that no status shows as launched loses its slot."""


class RunAdmission:
    """Admits reserved runs within the limits; keeps the run queue of all resources.

    Args:
        bounds: limits of concurrent runs.
    """

    def __init__(self, cache: Cache, bounds: RunBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._bounds = bounds
        self._clock = clock
        self._rate = TokenBucket(bounds.starts_per_second, math.ceil(bounds.starts_per_second), clock)
        self._let_start: dict[str, tuple[float, RunSlot]] = {}
        self._line: dict[str, RunSlot] = {}

    def run_queue(self) -> RunQueue:
        """The present run queue."""
        under_way, now = self._cache.slots.active(), self._clock()
        self._let_start = {
            holder: one
            for holder, one in self._let_start.items()
            if now - one[0] < _SEEN_SECONDS and holder not in under_way
        }
        self._line = {holder: slot for holder, slot in self._line.items() if self._cache.slots.is_reserved(holder)}
        for _, slot in self._let_start.values():
            under_way.add(slot)
        return RunQueue(under_way, tuple(self._line.values()), self._rate.ready, self._bounds)

    def let_start(self, decision: Decision) -> None:
        """Count the runs of a decision at once: no status shows them until their applications exist."""
        for action in decision.actions:
            if isinstance(action, CreateRun) and action.slot is not None:
                holder = action.slot.holder
                if holder not in self._let_start:
                    self._rate.reserve()
                self._let_start[holder] = (self._clock(), action.slot)
                self._line.pop(holder, None)

    def wait(self, slot: RunSlot) -> None:
        """Add a reserved run to the waiting ones."""
        self._line[slot.holder] = slot

    def leave(self, resource: ResourceKey) -> None:
        """Take a resource's runs out of the waiting ones, until a decision adds them again.

        One that waits for its table, or can't be decided about, would else be next again and again, and keep a slot
        from the others.
        """
        self._line = {holder: slot for holder, slot in self._line.items() if slot.resource != resource}

    def waits(self, holder: str) -> bool:
        """Whether a run waits for a slot, and so was never launched."""
        return holder in self._line

    def next(self) -> list[ResourceKey]:
        """The resources of waiting runs that can start now."""
        return [slot.resource for slot in startable(self.run_queue())] if self._line else []


@dataclass(frozen=True)
class Cluster:
    """What decisions need, and what executes them.

    Attributes:
        client: sends requests to the API server.
        cache: objects from watches, lists and own writes.
        leases: of tables.
        namespaces: knows which are being deleted or paused.
        starts: knows which runs may start.
        now: the time.
    """

    client: KubeClient
    cache: Cache
    leases: TableLeases
    namespaces: Namespaces
    admission: RunAdmission
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def of(cls, client: KubeClient, own_namespace: str, bounds: RunBounds) -> Cluster:
        """A cluster with empty caches.

        Args:
            own_namespace: the namespace of the tables' Leases.
            bounds: limits of concurrent runs.
        """
        cache = Cache()
        leases, namespaces = TableLeases(client, own_namespace), Namespaces(client)
        return cls(client, cache, leases, namespaces, RunAdmission(cache, bounds))
