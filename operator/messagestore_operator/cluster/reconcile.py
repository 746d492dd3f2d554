"""Reconciles a resource: gather a snapshot, decide, apply, enqueue it again. And deletes Leases that nothing needs."""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from time import perf_counter

from messagestore_operator.cluster.apply import Applier
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.metrics import Telemetry
from messagestore_operator.decide.actions import Decision
from messagestore_operator.decide.leases import is_abandoned, is_left_over
from messagestore_operator.decide.snapshot import Defaults, Snapshot, TableKey
from messagestore_operator.kube.client import ApiError, ConflictError, NotFoundError
from messagestore_operator.kube.objects import LEASES, ApiObject, ResourceKey, metadata
from messagestore_operator.kube.queue import WorkQueue
from messagestore_operator.names import TABLE

_log = logging.getLogger(__name__)

Decide = Callable[[Snapshot], Decision]


class Reconciler:
    """Reconciles the resources in the work queue."""

    def __init__(
        self,
        cluster: Cluster,
        gatherer: Gatherer,
        decide: Decide,
        applier: Applier,
        queue: WorkQueue[ResourceKey],
        telemetry: Telemetry,
    ) -> None:
        self._cache = cluster.cache
        self._admission = cluster.admission
        self._gatherer = gatherer
        self._decide = decide
        self._applier = applier
        self._queue = queue
        self._metrics = telemetry.metrics
        self._health = telemetry.health

    async def work(self, *, first: bool = False) -> None:
        """Reconcile one resource after the other, for ever; an error does not end it.

        Args:
            first: only resources that people have just applied.
        """
        while True:
            key = await self._queue.get(first=first)
            self._health.begin(key)
            started = perf_counter()
            failed = True
            try:
                failed = not await self._try(key)
            finally:
                self._health.end(key)
                self._metrics.reconciled.labels(key[0]).observe(perf_counter() - started)
                self._queue.done(key, failed=failed)
                if failed:
                    self._admission.leave(key)
                for other in self._admission.next():
                    # Its turn has come, however many changes of other runs wait.
                    self._queue.add(other, first=True)

    async def _try(self, key: ResourceKey) -> bool:
        """Reconcile a resource, log an error, and return whether it succeeded."""
        try:
            await self.reconcile(key)
        except (ConflictError, NotFoundError) as error:
            _log.info("%s: looking again: %s", "/".join(key), error)
            await self._refresh(key)
        except (ApiError, ValueError) as error:
            self._note(key, type(error).__name__)
            _log.warning("%s: %s", "/".join(key), error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._note(key, type(error).__name__)
            _log.exception("%s: this is a fault of the operator", "/".join(key))
        else:
            return True
        return False

    async def reconcile(self, key: ResourceKey) -> None:
        """Reconcile a resource once.

        Raises:
            ConflictError: something changed in the meantime.
        """
        if not self._gatherer.is_ready(key):
            self._admission.leave(key)
            return
        snapshot = await self._gatherer.snapshot(key)
        resource = self._cache.resource(key)
        if snapshot is None or resource is None:
            self._queue.forget(key)
            return
        # There is no await between the snapshot and this, so two decisions never take the same slot.
        decision = self._decide(snapshot)
        self._admission.leave(key)
        self._admission.let_start(decision)
        for run in snapshot.runs:
            self._applier.finish(run)
        await self._applier.carry_out(resource, decision.actions)
        if decision.requeue_at is not None:
            self._queue.add(key, (decision.requeue_at - datetime.now(UTC)).total_seconds())

    async def _refresh(self, key: ResourceKey) -> None:
        """After a conflict, or where something is gone, read again what the decision depended on."""
        try:
            async for affected in self._gatherer.refresh(key):
                if affected != key:
                    self._queue.add(affected)
        except ApiError as error:
            self._note(key, type(error).__name__)

    def _note(self, key: ResourceKey, error: str) -> None:
        self._metrics.errors.labels(key[0], error).inc()


class OldLeases:
    """Deletes old Leases periodically.

    Args:
        namespaces: watched namespaces, empty means all; other Leases belong to other operators.
    """

    def __init__(self, cluster: Cluster, gatherer: Gatherer, namespaces: Collection[str], defaults: Defaults) -> None:
        self._cache = cluster.cache
        self._leases = cluster.leases
        self._gatherer = gatherer
        self._namespaces = namespaces
        self._defaults = defaults
        self._now = cluster.now

    async def work(self, every: float) -> None:
        """Delete old Leases periodically, for ever."""
        while True:
            await asyncio.sleep(every)
            await self.remove()

    async def remove(self) -> None:
        """Delete the old Leases; one that can't be deleted now waits for the next time."""
        for document in self._cache.leases():
            table = TableKey.parse(str((metadata(document).get("annotations") or {}).get(TABLE)))
            if table is None or (self._namespaces and table.namespace not in self._namespaces):
                continue
            try:
                await self._release_if_unused(table, document)
            except ApiError as error:
                _log.info("the Lease of %s stays for now: %s", table, error)

    async def _release_if_unused(self, table: TableKey, document: ApiObject) -> None:
        lease = await self._gatherer.lease(table)
        named = bool(self._cache.interested(table))
        if is_left_over(lease, named, self._now(), self._defaults):
            await self._leases.remove(document)
            self._cache.remove({**document, "kind": LEASES.name})
        elif lease.holder is not None and not named and is_abandoned(lease, self._now(), self._defaults):
            # Its resource went while the run was in progress, so no decision releases it.
            released = await self._leases.release(table, lease.holder, self._now(), document)
            if released is not None:
                self._cache.put(released)
