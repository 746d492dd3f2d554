"""Takes a snapshot: an immutable view of a resource and of all that decisions about it depend on.

Most of it comes from the cache. As a watch may be late, the API server itself must confirm two facts: that an
application doesn't exist, and that a driver's pod is gone.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.lease import holder_of, lease_name
from messagestore_operator.cluster.observe import driver_of, observed_run
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.cluster.reports import NO_READING, Reports
from messagestore_operator.cluster.resources import RESOURCES
from messagestore_operator.cluster.run_objects import RunKey
from messagestore_operator.cluster.surroundings import Secrets
from messagestore_operator.decide.blockers import secrets_of
from messagestore_operator.decide.leases import first_epoch, with_requests
from messagestore_operator.decide.run_queue import RunQueue
from messagestore_operator.decide.snapshot import (
    AppState,
    Defaults,
    ObservedRun,
    PolicySnapshot,
    Reader,
    ReplaySnapshot,
    RunRef,
    Snapshot,
    StreamSnapshot,
    TableKey,
    TableLease,
    Uses,
    Waiting,
)
from messagestore_operator.decide.tables import current_runs, former_tables, reader, table_key, tables_of
from messagestore_operator.decide.trigger import later
from messagestore_operator.kube.client import ForbiddenError
from messagestore_operator.kube.events import last_warning
from messagestore_operator.kube.objects import (
    CONFIG_MAPS,
    LEASES,
    PODS,
    SPARK_APPLICATIONS,
    ApiObject,
    ResourceKey,
    at,
    created_at,
    time_of,
)
from messagestore_operator.names import DRIVER_ENDING, PAUSED
from messagestore_operator.status.conditions import generation
from messagestore_operator.status.replay import has_ended
from messagestore_operator.translate.secrets import digest

_NORMAL_START = timedelta(seconds=20)
"""After this time the Events of a pod that does not run are read."""
_NOTHING_LASTS = timedelta(seconds=5)
"""How long the operator remembers that a run that waits for its table has no objects."""


class Gatherer:
    """Takes snapshots."""

    def __init__(self, cluster: Cluster, predicates: Predicates, defaults: Defaults) -> None:
        self._cluster = cluster
        self._cache = cluster.cache
        self._client = cluster.client
        self._secrets = Secrets(cluster.client)
        self._predicates = predicates
        self._defaults = defaults
        self._reports = Reports()
        self._nothing: dict[RunKey, datetime] = {}
        self._read_at: dict[RunKey, datetime] = {}

    def is_ready(self, key: ResourceKey) -> bool:
        """Whether a snapshot can be taken; if not, its predicates are being read, and then it is enqueued."""
        resource = self._cache.resource(key)
        if resource is None or resource.metadata.deletion_timestamp is not None:
            return True
        return all(self._predicates.knows(one, key) for one in self._read_by(resource))

    async def snapshot(self, key: ResourceKey) -> Snapshot | None:
        """The snapshot of a resource; None if it doesn't exist."""
        resource = self._cache.resource(key)
        if resource is None:
            self._predicates.forget(key)
            return None
        streams = self._cache.streams_of(resource)
        problems = {one.identity: self._predicates.problem(one) for one in self._read_by(resource)}
        invalid = {one.identity: self._cache.problem(one.identity) for one in (resource, *streams)}
        sharing = self._cache.sharing(resource) if isinstance(resource, MessageStream) else ()
        tables = {*tables_of(resource, streams)}
        if isinstance(resource, MessageStream):
            tables |= {*former_tables(resource, sharing, self._defaults)}
        read = tuple([await self.lease(table) for table in sorted(self._read_tables(resource, streams))])
        common: dict[str, Any] = {
            "spec_problems": {identity: problem for identity, problem in invalid.items() if problem},
            "predicate_problems": {identity: problem for identity, problem in problems.items() if problem},
            "runs": await self._runs(resource),
            "leases": {table: await self.lease(table) for table in sorted(tables)},
            "secrets": await self._uses(resource, streams),
            "secrets_version": await self._secrets_version(resource, streams),
            "missing_kind": self._cache.missing_kind,
            "status_written": self._cache.written(key),
            "can_run": not await self._cluster.namespaces.terminating(resource.metadata.namespace),
            "defaults": self._defaults,
            "overlapping": self._cache.overlapping(resource),
            "paused": self._paused(resource.metadata.namespace),
            # It has all runs of all resources, and matters only where one may start.
            "run_queue": RunQueue() if self._goes_on(resource) else self._cluster.admission.run_queue(),
            # Last, so that nothing in the snapshot is newer than its clock.
            "now": self._cluster.now(),
        }
        if isinstance(resource, MessageStream):
            replays = tuple(job for job in self._cache.replays_of(resource) if not has_ended(job))
            referring = self._cache.referring_to(resource)
            return StreamSnapshot(stream=resource, sharing=sharing, replays=replays, referring=referring, **common)
        if isinstance(resource, RetentionPolicy):
            readers = {table_key(stream): tuple(await self._readers(resource, stream)) for stream in streams}
            return PolicySnapshot(policy=resource, streams=streams, readers=readers, **common)
        assert isinstance(resource, ReplayJob)
        to = resource.spec.target
        named = {stream.metadata.name: stream for stream in streams}
        target = named.get(to.name) if to else None
        stream = named.get(resource.spec.stream_ref.name)
        return ReplaySnapshot(job=resource, stream=stream, target=target, read=read, **common)

    async def _readers(self, policy: RetentionPolicy, stream: MessageStream) -> list[Reader]:
        """The runs of replays that may be reading a stream's folder."""
        erases = any(run.kind == "erase" and run.launched_at is None for run, _ in current_runs(policy))
        readers = []
        for job in (job for one in (stream, *self._cache.sharing(stream)) for job in self._cache.replays_of(one)):
            current = job.status.current_run if job.status else None
            key = job.metadata.namespace, current.name if current else ""
            made = self._observed(key)
            if erases and made is not None and made.ref.continuous:
                # The erasure waits for what it reports.
                await self._read_report(key)
                made = self._observed(key)
            if run := reader(job, made):
                readers.append(run)
        return readers

    def _read_tables(self, resource: Resource, streams: tuple[MessageStream, ...]) -> set[TableKey]:
        """The keys of the table that a replay still reads, in each namespace with a stream that names its folder."""
        if not isinstance(resource, ReplayJob) or has_ended(resource):
            return set()
        read = [stream for stream in streams if stream.metadata.name == resource.spec.stream_ref.name]
        return {table_key(one) for stream in read for one in (stream, *self._cache.sharing(stream))}

    async def _uses(self, resource: Resource, streams: tuple[MessageStream, ...]) -> Uses | None:
        """The existing Secrets, if a run could be created; None if they are not needed."""
        rests = isinstance(resource, ReplayJob) and has_ended(resource)
        if rests or not self._defaults.tenancy.secrets.require_label or self._goes_on(resource):
            return None
        return await self._secrets.uses(resource.metadata.namespace, secrets_of(resource, streams))

    async def _secrets_version(self, resource: Resource, streams: tuple[MessageStream, ...]) -> str | None:
        """The version of the Secrets of a run that goes on for ever, unless the operator may read none."""
        trigger = resource.spec.trigger if isinstance(resource, MessageStream | ReplayJob) else None
        if trigger is None or trigger.continuous is None or not self._defaults.tenancy.secrets.require_label:
            return None
        needs = secrets_of(resource, streams)
        version = await self._secrets.version(resource.metadata.namespace, needs)
        if isinstance(resource, MessageStream) or (version is None and needs):
            return version
        # A replay's run has parts of the spec of the stream that it reads.
        return digest(version or "", *(str(generation(stream)) for stream in streams))

    def _paused(self, namespace: str) -> str | None:
        if self._defaults.paused:
            return "the operator launches nothing while its setting runs.paused is true"
        if self._cluster.namespaces.paused(namespace):
            return f"nothing is launched in namespace {namespace} while its annotation {PAUSED} is true"
        return None

    def _goes_on(self, resource: Resource) -> bool:
        """Whether the resource's only run is in progress, and so has its Secrets."""
        current = () if isinstance(resource, RetentionPolicy) else current_runs(resource)
        runs = [self._observed((resource.metadata.namespace, run.name)) for run, _ in current]
        return any(run is not None and not run.state.ended and run.state is not AppState.MISSING for run in runs)

    def _read_by(self, resource: Resource) -> tuple[Resource, ...]:
        """The resources whose predicates matter for a decision: itself, and the stream that it replays to."""
        if not isinstance(resource, ReplayJob) or (to := resource.spec.target) is None:
            return (resource,)
        target = self._cache.resource(("MessageStream", resource.metadata.namespace, to.name))
        return (resource, target) if target is not None else (resource,)

    async def refresh(self, key: ResourceKey) -> AsyncIterator[ResourceKey]:
        """Read a resource and its tables' Leases again, because the cached ones were out of date.

        Returns:
            The resources that this may affect: the watch that shows the change later is no news to the cache.
        """
        kind, namespace, name = key
        document = await self._client.find(RESOURCES[kind].path(namespace, name))
        known = self._cache.resource(key)
        for one in self._put(kind, document, {"metadata": known.metadata.to_dict()} if known is not None else None):
            yield one
        resource = self._cache.resource(key)
        if resource is None:
            return
        for table in tables_of(resource, self._cache.streams_of(resource)):
            lease = await self._cluster.leases.read(table)
            for one in self._put(LEASES.name, lease, self._cache.lease(lease_name(table))):
                yield one

    async def _runs(self, resource: Resource) -> tuple[ObservedRun, ...]:
        namespace = resource.metadata.namespace
        current = {(namespace, run.name): run for run, _ in current_runs(resource)}
        waiting = {key for key, run in current.items() if run.launched_at is None}
        keys = sorted({*self._cache.runs_of(resource), *current})
        runs = [await self._observe(key, sure=key in current, waits=key in waiting) for key in keys]
        for key, run in zip(keys, runs, strict=True):
            if run is not None and run.state.ended and run.driver_gone and key not in current:
                self._cache.trim(key)
        return tuple(run for run in runs if run is not None)

    async def _observe(self, key: RunKey, *, sure: bool, waits: bool = False) -> ObservedRun | None:
        """A run; None if it has no objects.

        Args:
            sure: whether a decision depends on its being over, so that the API server must be asked.
            waits: whether the status says that it was not launched yet. A launched run may be another leader's, with
                objects that no watch has shown; the API server is asked even if it had none a moment ago.
        """
        if sure and (refused := self._cache.refusal(key)) is not None:
            return refused
        run = self._observed(key)
        if run is None or run.state is AppState.MISSING:
            if run is None and (not sure or (waits and self._is_nothing(key))):
                return None
            await self._find(key)
            run = self._observed(key)
            if run is None and waits:
                self._nothing[key] = self._cluster.now()
        elif not sure and not run.state.ended and not run.deleting:
            # A run that no status names will be deleted, unless only the watch of its resource is late.
            await self._find(key)
            run = self._observed(key)
        elif sure and run.state.ended and not (run.driver and run.driver.gone):
            await self._find_driver(key)
            run = self._observed(key)
        if not sure or run is None:
            return run
        reported = run.report is not None and run.report.state != "Running"
        if self._is_report_due(key) or (run.over and not reported):
            await self._read_report(key)
            run = self._observed(key)
        return await self._with_mounts(run) if run is not None else None

    def _is_nothing(self, key: RunKey) -> bool:
        """Whether a run has no objects: it waits for a slot, or the API server said so a moment ago."""
        if self._cluster.admission.waits("/".join(key)):
            return True
        now = self._cluster.now()
        self._nothing = {known: since for known, since in self._nothing.items() if now - since < _NOTHING_LASTS}
        return key in self._nothing

    async def _with_mounts(self, run: ObservedRun) -> ObservedRun:
        """The run with problems of a stuck driver that only Events show, such as a volume's missing Secret."""
        driver = run.driver
        if driver is None or driver.phase != "Pending" or driver.waiting or not self._is_late(run):
            return run
        words = await last_warning(self._client, run.ref.namespace, f"{run.ref.name}{DRIVER_ENDING}")
        return replace(run, driver=replace(driver, waiting=Waiting("CreateContainerError", words))) if words else run

    def _is_late(self, run: ObservedRun) -> bool:
        # The pod's age counts: it is created some time after the application, and its first mounts often fail.
        made = (run.driver.created_at if run.driver else None) or run.created_at
        return made is not None and self._cluster.now() - made > _NORMAL_START

    def _observed(self, key: RunKey) -> ObservedRun | None:
        run = self._cache.run(key)
        if run.empty:
            return None
        return observed_run(run, NO_READING if run.trimmed else self._reports.of(run.config_map, key[1]))

    async def _find(self, key: RunKey) -> None:
        namespace, name = key
        if application := await self._client.find(SPARK_APPLICATIONS.path(namespace, name)):
            self._put(SPARK_APPLICATIONS.name, application)
        if self._cache.run(key).config_map is None:
            self._put(CONFIG_MAPS.name, await self._client.find(CONFIG_MAPS.path(namespace, name)))
        await self._find_driver(key)

    async def _find_driver(self, key: RunKey) -> None:
        """Read a driver's pod, unless it has ended: a watch may be late with it, or have missed its deletion."""
        namespace, name = key
        known = self._cache.run(key).driver
        if known is not None and driver_of(known).gone:
            return
        self._put(PODS.name, await self._client.find(PODS.path(namespace, f"{name}{DRIVER_ENDING}")), known)

    def _is_report_due(self, key: RunKey) -> bool:
        """Whether to read a report that has changed: a driver writes every few seconds, a status shows less.

        Of a run that has just begun nothing is read: most end before there is anything to tell.
        """
        since = self._read_at.get(key) or created_at(self._cache.run(key).application)
        return self._cache.is_unread(key) and (since is None or self._has_passed(since))

    def _has_passed(self, read: datetime) -> bool:
        now = self._cluster.now()
        return later(read, self._defaults.status_interval, now) <= now

    async def _read_report(self, key: RunKey) -> None:
        """Read a run's ConfigMap, of which watches show only metadata, and may be behind."""
        self._read_at = {known: read for known, read in self._read_at.items() if not self._has_passed(read)}
        self._read_at[key] = self._cluster.now()
        self._put(CONFIG_MAPS.name, await self._client.find(CONFIG_MAPS.path(*key)))

    def _put(self, kind: str, document: ApiObject | None, known: ApiObject | None = None) -> set[ResourceKey]:
        """Put what was read into the cache, or remove what is known and no longer there."""
        if document is None:
            return set() if known is None else self._cache.remove({**known, "kind": kind})
        whole = {"data": {}, **document} if kind == CONFIG_MAPS.name else document
        return self._cache.put({**whole, "kind": kind})

    async def lease(self, table: TableKey) -> TableLease:
        """A table's Lease, with the requests of the runs that have it or wait for it."""
        document = self._cache.lease(lease_name(table))
        now = self._cluster.now()
        written = TableLease(table, epoch=first_epoch(now)) if document is None else _written(table, document)
        lease = with_requests(written, list(self._cache.lease_requests(table)))
        return lease if lease.holder is None else await self._with_holder(lease)

    async def _with_holder(self, lease: TableLease) -> TableLease:
        namespace, _, name = (lease.holder or "").partition("/")
        if lease.holder_request is not None:
            # The run's own resource decides about it; until then no other run may acquire the table.
            return replace(lease, holder_run=self._observed((namespace, name)))
        try:
            run = await self._observe((namespace, name), sure=True)
        except ForbiddenError:
            run = _out_of_sight(namespace, name)
        return replace(lease, holder_run=run)


def _written(table: TableKey, document: ApiObject) -> TableLease:
    holder, spec = holder_of(document), document.get("spec") or {}
    return TableLease(
        table=table,
        epoch=int(spec.get("leaseTransitions") or 0),
        holder=holder,
        since=time_of(spec.get("acquireTime") if holder else spec.get("renewTime")),
        resource_version=str(at(document, "metadata", "resourceVersion")),
    )


def _out_of_sight(namespace: str, name: str) -> ObservedRun:
    """A run in a namespace that this operator may not read; it may still write."""
    ref = RunRef(namespace, name, 0, "ingest")
    return ObservedRun(ref, AppState.RUNNING, message=f"namespace {namespace} is not this operator's to look into")
