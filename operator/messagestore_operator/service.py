"""The operator as a process: it elects a leader, lists all objects, watches, reconciles, and shuts down in order."""

import asyncio
import logging
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import kopf

from messagestore_operator import handlers
from messagestore_operator.api.common import Schedule
from messagestore_operator.cluster.apply import Applier, log_deleted
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.metrics import Metrics, Telemetry
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.cluster.reconcile import Decide, OldLeases, Reconciler
from messagestore_operator.cluster.resources import RESOURCES
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.schedule import Window
from messagestore_operator.decide.snapshot import Defaults, MaintenanceBounds
from messagestore_operator.kube import connection
from messagestore_operator.kube.client import METADATA_LIST, KubeClient, connect
from messagestore_operator.kube.events import Events
from messagestore_operator.kube.health import Health, served
from messagestore_operator.kube.leader import Leader, Timing
from messagestore_operator.kube.objects import (
    CONFIG_MAPS,
    LEASES,
    PODS,
    SELECTOR,
    SPARK_APPLICATIONS,
    ApiObject,
    ResourceKey,
    name_of,
    namespace_of,
)
from messagestore_operator.kube.queue import WorkQueue
from messagestore_operator.kube.ratelimit import TokenBucket
from messagestore_operator.kube.scrapes import Visitors
from messagestore_operator.kube.sync import KindMissingError, Listing, Sync, watched
from messagestore_operator.settings import LeaderSettings, Settings, seconds
from messagestore_operator.tenancy.predicate_process import PredicateProcess

_log = logging.getLogger(__name__)
LOST_LEADERSHIP = 3
"""Exit code of a replica that lost its leadership."""
_ROLES_AT_ONCE = 4
"""Namespaces' Roles that are written in parallel; a write takes some tenths of a second."""
_LOOK_AGAIN_SECONDS = 0.1
"""Wait after a failed reconciliation, most often a conflict; it doubles each time."""
_TOGETHER_SECONDS = 1.0
"""A run's application, pod and report change one after the other; after this wait one reconciliation handles all."""


class ServiceError(Exception):
    """The operator can't continue; the message says why."""


async def run(settings: Settings, decide: Decide) -> None:
    """Serve until a signal ends it.

    Raises:
        ServiceError: the API server can't be reached, a kind is not installed, or the watches ended.
    """
    _warn_of(settings)
    metrics, health = Metrics(), health_of(settings)
    telemetry = Telemetry(metrics, health)
    stop = _stop_signal()
    try:
        configuration = await connection.configuration()
    except connection.ConnectionProblemError as error:
        raise ServiceError(str(error)) from error
    limit = TokenBucket(settings.requests_per_second, settings.request_burst)
    async with (
        connect(configuration, limit, metrics.observe_request) as client,
        _served(settings, client, telemetry),
    ):
        identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        health.waiting_to_lead = True
        async with _leadership(client, settings, identity, stop):
            if stop.done():
                return
            health.waiting_to_lead = False
            metrics.leading.set(1)
            service = Service(settings, client, decide, telemetry, identity)
            try:
                await service.serve(stop)
            except KindMissingError as error:
                raise ServiceError(str(error)) from error


def health_of(settings: Settings) -> Health:
    """The health of the process, with the settings' limits."""
    return Health(seconds(settings.stalled_after), seconds(settings.resync))


def _served(
    settings: Settings, client: KubeClient, telemetry: Telemetry
) -> AbstractAsyncContextManager[tuple[int, int]]:
    """Serves probes and metrics as the settings say."""
    visitors = Visitors(client) if settings.metrics.authentication else None
    probes, metrics = (settings.listen, settings.health_port), (settings.listen, settings.metrics_port)
    certificates = settings.metrics.certificates
    return served(telemetry.health, telemetry.metrics.page, probes, metrics, certificates, visitors)


def _warn_of(settings: Settings) -> None:
    """Log what these settings open to tenants."""
    if settings.tenancy.storage.unbounded:
        _log.warning(
            "tenancy.storage.requireCredentials is false and tenancy.storage.prefixes is empty: whoever may create a "
            "MessageStream can read and write all that the identity of the runs' pods can"
        )
    if settings.shares_identity:
        _log.warning(
            "driver.annotations gives all namespaces one cloud identity: whoever may create pods or tokens in one of "
            "them reaches all storage of that identity, whatever tenancy.storage.prefixes says; give each namespace "
            "its own by driver.namespaceAnnotations"
        )


class Service:
    """The leader's work."""

    def __init__(
        self,
        settings: Settings,
        client: KubeClient,
        decide: Decide,
        telemetry: Telemetry,
        identity: str,
    ) -> None:
        metrics, health = telemetry.metrics, telemetry.health
        self._settings, self._client = settings, client
        policy = defaults(settings)
        cluster = Cluster.of(client, settings.namespace, policy.bounds)
        self._cache = cluster.cache
        self._queue: WorkQueue[ResourceKey] = WorkQueue(_LOOK_AGAIN_SECONDS)
        self._predicates = Predicates(PredicateProcess(), partial(self._enqueue, first=True))
        gatherer = Gatherer(cluster, self._predicates, policy)
        self._old_leases = OldLeases(cluster, gatherer, settings.watch_namespaces, policy)
        self._drivers = Drivers(client, self._cache, settings.driver)
        applier = Applier(
            cluster,
            self._drivers,
            Events(client, identity),
            settings,
            partial(self._enqueue, delay=_TOGETHER_SECONDS),
            metrics.observe_run,
        )
        self._reconciler = Reconciler(cluster, gatherer, decide, applier, self._queue, telemetry)
        self._sync = Sync(client, self._cache, listings(settings), self._enqueue, health, metrics.missed.inc)
        health.lateness = lambda: self._queue.lateness
        metrics.watch_health(lambda: bool(health.problems()))
        metrics.watch_queue(lambda: self._queue.depth, lambda: self._queue.lateness)
        metrics.watch_cache(self._cache)

    async def serve(self, stop: asyncio.Future[None]) -> None:
        """Work until asked to stop.

        Raises:
            KindMissingError: a kind is not installed.
            ServiceError: the watches ended.
        """
        async with _tasks(self._sync.fill()) as (filled,):
            await asyncio.wait([filled, stop], return_when=asyncio.FIRST_COMPLETED)
            if not filled.done():
                return
            filled.result()
        workers = self._settings.workers
        work = [self._reconciler.work() for _ in range(workers)]
        # Resources that people apply don't wait for changes of runs, however many there are.
        work += [self._reconciler.work(first=True) for _ in range((workers + 1) // 2)]
        work += [self._predicates.work()]
        # Kopf can't ask for metadata alone.
        namespaces = self._settings.watch_namespaces or (None,)
        work += [watched(self._client, CONFIG_MAPS, namespace, self._observed) for namespace in namespaces]
        work += [self._drivers.work() for _ in range(_ROLES_AT_ONCE)]
        every = seconds(self._settings.resync)
        work += [self._sync.keep_up(every), self._old_leases.work(every)]
        async with _tasks(*work) as tasks:
            while await self._watched(stop, tasks):
                _log.info("watching again: other kinds or namespaces can be read now")
            broken = next((task for task in tasks if task.done()), None)
            if broken is not None:
                raise ServiceError("a worker ended unexpectedly") from broken.exception()

    async def _watched(self, stop: asyncio.Future[None], tasks: Iterable[asyncio.Task[None]]) -> bool:
        """Watch until the end, or until other kinds or namespaces can be watched; returns True for the latter."""
        ended, begun, namespaces = asyncio.Event(), asyncio.Event(), self._sync.namespaces
        watches = asyncio.create_task(self._watch(namespaces, begun, ended))
        async with _tasks(self._sync.changed(namespaces), _listens_again(stop, begun)) as (changed, _):
            done, _ = await asyncio.wait([stop, watches, changed, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ended.set()
        try:
            await _ended_watches(watches)
        except ServiceError:
            if not await self._sync.has_lost_one_of(namespaces):
                raise
            return True
        if changed in done:
            changed.result()
        return done == {changed}

    def _enqueue(self, keys: Iterable[ResourceKey], delay: float = 0, *, first: bool = False) -> None:
        for key in keys:
            self._queue.add(key, delay, first=first)

    def _observed(self, event_type: str | None, document: ApiObject) -> None:
        key = (str(document.get("kind")), namespace_of(document), name_of(document))
        if event_type == "DELETED" and (gone := self._cache.resource(key)) is not None:
            log_deleted(gone)
        keys = self._cache.remove(document) if event_type == "DELETED" else self._cache.put(document)
        self._enqueue(keys, _TOGETHER_SECONDS)
        if key in keys:
            # Resources that people have applied are reconciled at once, before changes of runs.
            self._enqueue([key], first=True)

    async def _watch(self, namespaces: Sequence[str], begun: asyncio.Event, ended: asyncio.Event) -> None:
        await kopf.operator(
            registry=handlers.registry([kind for kind in self._sync.kinds if kind is not CONFIG_MAPS], self._observed),
            settings=handlers.settings([SPARK_APPLICATIONS, CONFIG_MAPS, PODS]),
            memories=handlers.NoMemories(),
            clusterwide=not namespaces,
            namespaces=namespaces,
            standalone=True,
            ready_flag=begun,
            stop_flag=ended,
        )


def listings(settings: Settings) -> list[Listing]:
    """What the operator lists; SparkApplications may not be installed: until it is, there are no runs."""
    watched = settings.watch_namespaces
    return [
        # First, and not watched: one that is read after the statuses may name a run that no status has yet.
        Listing(LEASES, [settings.namespace], SELECTOR, watched=False),
        *(Listing(kind, watched) for kind in RESOURCES.values()),
        Listing(SPARK_APPLICATIONS, watched, SELECTOR, optional=True),
        # A ConfigMap's texts may be large, and only those of some runs are needed.
        Listing(CONFIG_MAPS, watched, SELECTOR, METADATA_LIST),
        Listing(PODS, watched, SELECTOR),
    ]


def defaults(settings: Settings) -> Defaults:
    """The settings that decisions depend on."""
    runs, upkeep = settings.runs, settings.maintenance
    return Defaults(
        start_deadline=runs.start_deadline.timedelta,
        stop_deadline=runs.stop_deadline.timedelta,
        backoff_base=runs.backoff_base.timedelta,
        backoff_max=runs.backoff_max.timedelta,
        yield_after=runs.yield_after.timedelta,
        stalled_after=runs.stalled_after.timedelta,
        retention_blocked_after=runs.retention_blocked_after.timedelta,
        poll_interval=runs.poll_interval.timedelta,
        streams_at_once=runs.streams_at_once,
        ended_runs=runs.ended_runs,
        deletion_bound=runs.deletion_bound.timedelta,
        paused=runs.paused,
        windows=tuple(
            Window(Schedule(cron=one.cron, time_zone=one.time_zone), one.duration.timedelta) for one in runs.windows
        ),
        bounds=RunBounds(
            runs.at_once.in_all, runs.at_once.in_namespace, runs.at_once.at_endpoint, runs.starts_per_second
        ),
        status_interval=settings.status_interval.timedelta,
        maintenance=MaintenanceBounds(
            upkeep.commits, upkeep.small_files, upkeep.every.timedelta if upkeep.every is not None else None
        ),
        tenancy=settings.tenancy.model_copy(update={"images": (*settings.tenancy.images, settings.spark.image)}),
    )


async def _ended_watches(watches: asyncio.Task[None]) -> None:
    """Wait for kopf, which handles signals and ends itself.

    Raises:
        ServiceError: it ended because something failed.
    """
    try:
        await watches
    except asyncio.CancelledError:
        return
    except Exception as error:
        raise ServiceError(f"the watches ended: {error}") from error


@asynccontextmanager
async def _leadership(
    client: KubeClient, settings: Settings, identity: str, stop: asyncio.Future[None]
) -> AsyncIterator[None]:
    """Wait for the Lease, and lead while the block lasts. A leader that loses it exits at once."""
    wanted = settings.leader
    if not wanted.enabled:
        yield
        return
    leader = _leader(client, settings.namespace, wanted, identity)
    async with _tasks(leader.acquire()) as (acquired,):
        await asyncio.wait([acquired, stop], return_when=asyncio.FIRST_COMPLETED)
        if not acquired.done():
            yield
            return
        acquired.result()
    try:
        async with _tasks(_hold_or_exit(leader)):
            yield
    finally:
        await leader.release()


def _leader(client: KubeClient, namespace: str, wanted: LeaderSettings, identity: str) -> Leader:
    timing = Timing(wanted.duration, wanted.renew_deadline, wanted.retry)
    return Leader(client.unlimited(wanted.renew_deadline), namespace, wanted.lease, identity, timing)


async def _hold_or_exit(leader: Leader) -> None:
    await leader.hold()
    logging.shutdown()
    # Work in progress must not write any more: another replica may lead already.
    os._exit(LOST_LEADERSHIP)


@asynccontextmanager
async def _tasks(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Tasks that run while the block lasts, and are cancelled and awaited at its end."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _stop_signal() -> asyncio.Future[None]:
    """Done when the process is asked to end."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _listen(stop)
    return stop


def _listen(stop: asyncio.Future[None]) -> None:
    """End by signals from now on."""

    def ask() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ask)


async def _listens_again(stop: asyncio.Future[None], begun: asyncio.Event) -> None:
    """Take the signals back from kopf, which takes them as it begins, and loses those that come as it ends."""
    await begun.wait()
    _listen(stop)
