"""Reconciling resources: after each failure of one, the next attempt comes later."""

import asyncio
from typing import Any

import pytest

from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.kubeflow import KubeflowBackend
from messagestore_operator.cluster.metrics import Metrics, Telemetry
from messagestore_operator.cluster.reconcile import Reconciler
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.kube.client import ApiError, ConflictError
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.kube.queue import WorkQueue

ORDERS = ("MessageStream", "default", "orders")
CONFLICT = ConflictError("PATCH", "orders", 409, "Conflict", "it has changed")
DOWN = ApiError("GET", "orders", 0, "Unreachable", "")


class _Gatherer:
    """Never gets a snapshot."""

    def __init__(self, error: ApiError) -> None:
        self._error = error
        self.looks = self.refreshed = 0

    def is_ready(self, key: ResourceKey) -> bool:
        return True

    async def snapshot(self, key: ResourceKey) -> None:
        self.looks += 1
        raise self._error

    async def refresh(self, key: ResourceKey) -> None:
        self.refreshed += 1


@pytest.mark.parametrize(("error", "refreshes"), [(CONFLICT, True), (DOWN, False)])
def test_a_failing_reconciliation_is_retried_ever_less_often(error: ApiError, refreshes: bool) -> None:
    gatherer: Any = _Gatherer(error)
    unused: Any = None

    async def half_a_second() -> None:
        queue: WorkQueue[ResourceKey] = WorkQueue(0.01)
        cluster = Cluster.of(unused, KubeflowBackend(unused), "op", RunBounds())
        telemetry = Telemetry(Metrics(), Health(60, 60))
        reconciler = Reconciler(cluster, gatherer, unused, unused, queue, telemetry)
        queue.add(ORDERS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reconciler.work(), 0.5)

    asyncio.run(half_a_second())
    # After 0.01, 0.03, 0.07, 0.15 and 0.31 seconds; a busy machine has fewer.
    assert 2 <= gatherer.looks <= 6
    assert gatherer.refreshed == (gatherer.looks if refreshes else 0)
