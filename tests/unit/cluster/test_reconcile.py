"""Reconciling resources: after each failure of one, the next attempt comes later."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.metrics import Metrics, Telemetry
from messagestore_operator.cluster.reconcile import Reconciler
from messagestore_operator.decide.actions import Decision
from messagestore_operator.decide.run_queue import RunBounds, RunSlot
from messagestore_operator.kube.client import ApiError, ConflictError, NotFoundError
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.kube.queue import WorkQueue
from support.launches import stream

ORDERS = ("MessageStream", "default", "orders")
CONFLICT = ConflictError("PATCH", "orders", 409, "Conflict", "it has changed")
GONE = NotFoundError("PATCH", "orders", 404, "NotFound", "there is none")
DOWN = ApiError("GET", "orders", 0, "Unreachable", "")


class _Gatherer:
    """Gets no snapshot while there is an error, or is not ready."""

    def __init__(self, error: ApiError | None = None, *, ready: bool = True) -> None:
        self._error, self._ready = error, ready
        self.looks = self.refreshed = 0

    def is_ready(self, key: ResourceKey) -> bool:
        self.looks += not self._ready
        return self._ready

    async def snapshot(self, key: ResourceKey) -> SimpleNamespace:
        self.looks += 1
        if self._error is not None:
            raise self._error
        return SimpleNamespace(runs=())

    async def refresh(self, key: ResourceKey) -> AsyncIterator[ResourceKey]:
        self.refreshed += 1
        yield key


class _Applier:
    """Has nothing to do."""

    async def carry_out(self, resource: object, wanted: object) -> None:
        """Do nothing."""


def _work_for_half_a_second(gatherer: Any) -> None:
    """Reconcile a stream that has a run in line for a slot, and slots are free."""
    unused: Any = None
    applier: Any = _Applier()

    async def half_a_second() -> None:
        queue: WorkQueue[ResourceKey] = WorkQueue(0.01)
        cluster = Cluster.of(unused, "op", RunBounds())
        run = {"name": "orders-ingest-1", "kind": "ingest", "number": 1, "requestedAt": "2026-03-01T06:00:00Z"}
        cluster.cache.put({**stream().to_dict(), "kind": "MessageStream", "status": {"currentRun": run}})
        cluster.admission.wait(RunSlot("default/orders-ingest-1", ORDERS, frozenset(), datetime.now(UTC)))
        assert cluster.admission.next() == [ORDERS]
        telemetry = Telemetry(Metrics(), Health(60, 60))
        reconciler = Reconciler(cluster, gatherer, lambda _: Decision((), unused, None), applier, queue, telemetry)
        queue.add(ORDERS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reconciler.work(), 0.5)

    asyncio.run(half_a_second())


@pytest.mark.parametrize(("error", "refreshes"), [(CONFLICT, True), (GONE, True), (DOWN, False)])
def test_a_failing_reconciliation_is_retried_ever_less_often(error: ApiError, refreshes: bool) -> None:
    gatherer = _Gatherer(error)
    _work_for_half_a_second(gatherer)
    # After 0.01, 0.03, 0.07, 0.15 and 0.31 seconds; a busy machine has fewer.
    assert 2 <= gatherer.looks <= 6
    assert gatherer.refreshed == (gatherer.looks if refreshes else 0)


class _Refreshing(_Gatherer):
    """Fails once, and then finds that another resource is affected."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def snapshot(self, key: ResourceKey) -> SimpleNamespace:
        self.seen.append(key[2])
        if len(self.seen) == 1:
            raise CONFLICT
        return await super().snapshot(key)

    async def refresh(self, key: ResourceKey) -> AsyncIterator[ResourceKey]:
        yield "MessageStream", "default", "twin"
        raise DOWN


def test_resources_that_depend_on_what_was_read_anew_are_reconciled_too() -> None:
    gatherer = _Refreshing()
    _work_for_half_a_second(gatherer)
    assert sorted(gatherer.seen) == ["orders", "orders", "twin"]


@pytest.mark.parametrize("gatherer", [_Gatherer(), _Gatherer(ready=False)], ids=["waits for its table", "is read"])
def test_a_run_in_line_that_waits_for_something_else_than_a_slot_is_not_looked_at_again_and_again(
    gatherer: _Gatherer,
) -> None:
    _work_for_half_a_second(gatherer)
    assert gatherer.looks == 1
