"""Carries out a decision, action by action. Each is idempotent; the first that fails ends the decision."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import singledispatchmethod
from typing import Any

from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.run_report import counts_of
from messagestore_core.logs import tell
from messagestore_operator.api import MessageStream
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.scalars import Time
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.labels import object_reference
from messagestore_operator.cluster.launch import Launcher, LaunchRefusedError, control_text
from messagestore_operator.cluster.lease import lease_name
from messagestore_operator.cluster.pods import Launch
from messagestore_operator.cluster.reports import CONTROL
from messagestore_operator.cluster.resources import RESOURCES
from messagestore_operator.decide import actions
from messagestore_operator.decide.actions import Status
from messagestore_operator.decide.run_lifecycle import EndedRun
from messagestore_operator.decide.snapshot import ObservedRun
from messagestore_operator.decide.stream_deletion import FINALIZER
from messagestore_operator.kube.client import ConflictError, NotFoundError
from messagestore_operator.kube.events import Events
from messagestore_operator.kube.objects import CONFIG_MAPS, SPARK_APPLICATIONS, ApiObject
from messagestore_operator.settings import Settings
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.translate.common import holds_of

_log = logging.getLogger(__name__)
Enqueue = Callable[[Iterable[tuple[str, str, str]]], None]
_NEED_SOMEBODY = frozenset({"Failing", "Stalled", "Failed"})


class Applier:
    """Writes to the cluster, and puts the answers into the cache at once.

    Args:
        enqueue: receives the resources that a write may affect.
        observe: receives each run that has ended, for figures.
    """

    def __init__(
        self,
        cluster: Cluster,
        drivers: Drivers,
        events: Events,
        settings: Settings,
        enqueue: Enqueue,
        observe: Callable[[EndedRun], None],
    ) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._cache = cluster.cache
        self._events = events
        self._settings = settings
        self._enqueue = enqueue
        self._observe = observe
        self._launcher = Launcher(cluster.client, cluster.cache, drivers)

    async def carry_out(self, resource: Resource, wanted: Iterable[actions.Action]) -> None:
        """Carry out the actions of a decision.

        Raises:
            ConflictError: something is not as it was in the snapshot: take another one.
        """
        for action in wanted:
            await self._do(action, resource)

    def finish(self, run: ObservedRun) -> None:
        """Finish the launch of a run that a killed operator left half done."""
        self._launcher.finish(run)

    @singledispatchmethod
    async def _do(self, action: actions.Action, resource: Resource) -> None:
        raise NotImplementedError(type(action).__name__)

    @_do.register
    async def _(self, action: actions.WriteStatus, resource: Resource) -> None:
        changes: list[dict[str, Any]] = [{"op": "add", "path": "/status", "value": action.status.to_dict()}]
        if action.resource_version is not None:
            # With an old version the API server refuses it as a conflict, even if it would change nothing.
            version = {"op": "replace", "path": "/metadata/resourceVersion", "value": action.resource_version}
            changes.insert(0, version)
        self._put(await self._client.json_patch(_path(resource, "status"), changes))
        self._cache.note_written(resource.identity, self._cluster.now())
        log_change(resource, action.status)

    @_do.register
    async def _(self, action: actions.AcquireLease, resource: Resource) -> None:
        lease = await self._cluster.leases.acquire(
            action.table, action.holder, action.epoch, action.resource_version, self._cluster.now()
        )
        self._put(lease)

    @_do.register
    async def _(self, action: actions.ReleaseLease, resource: Resource) -> None:
        known = self._cache.lease(lease_name(action.table))
        lease = await self._cluster.leases.release(action.table, action.holder, self._cluster.now(), known)
        if lease is not None:
            self._put(lease)

    @_do.register
    async def _(self, action: actions.AwaitRoom, resource: Resource) -> None:
        self._cluster.admission.wait(action.slot)

    @_do.register
    async def _(self, action: actions.CreateRun, resource: Resource) -> None:
        await self._confirm_holds(action)
        try:
            settings = self._settings
            launch = Launch(
                action, resource, settings.spark, settings.driver, settings.tenancy.labels, settings.log_format
            )
            await self._launcher.launch(launch)
        except LaunchRefusedError as error:
            _log.warning("%s was not launched: %s", action.run.holder, error)
            if "being terminated" in str(error):
                self._cluster.namespaces.note(action.run.namespace, unwell=True)
            else:
                self._cache.refuse(action.run, str(error))
            self._enqueue([resource.identity])

    @_do.register
    async def _(self, action: actions.DeleteRun, resource: Resource) -> None:
        key = (action.namespace, action.name)
        application, config_map = (self._cache.uid(kind.name, key) for kind in (SPARK_APPLICATIONS, CONFIG_MAPS))
        # Another object of the name is not this run's, and stays.
        with suppress(ConflictError):
            if application and await self._client.delete(SPARK_APPLICATIONS.path(*key), application):
                return
        with suppress(ConflictError):
            if config_map:
                # Its application is gone, or an earlier release made none, and no application owns its ConfigMap.
                await self._client.delete(CONFIG_MAPS.path(*key), config_map)

    @_do.register
    async def _(self, action: actions.SetControl, resource: Resource) -> None:
        key = (action.namespace, action.name)
        path, uid = CONFIG_MAPS.path(*key), self._cache.uid(CONFIG_MAPS.name, key)
        body = {"metadata": {"uid": uid}, "data": {CONTROL: control_text(action.control)}}
        try:
            self._put(await self._client.merge_patch(path, body))
        except NotFoundError:
            return

    @_do.register
    async def _(self, action: actions.LogRun, resource: Resource) -> None:
        log_run(resource, action.ended)
        self._observe(action.ended)

    @_do.register
    async def _(self, action: actions.EmitEvent, resource: Resource) -> None:
        await self._events.record(object_reference(resource), action)

    @_do.register
    async def _(self, action: actions.AddFinalizer, resource: Resource) -> None:
        await self._set_finalizers(resource, lambda known: [*known, FINALIZER] if FINALIZER not in known else known)

    @_do.register
    async def _(self, action: actions.RemoveFinalizer, resource: Resource) -> None:
        await self._set_finalizers(resource, lambda known: [name for name in known if name != FINALIZER])

    @_do.register
    async def _(self, action: actions.DeleteResource, resource: Resource) -> None:
        await self._client.delete(_path(resource), action.uid)

    async def _confirm_holds(self, create: actions.CreateRun) -> None:
        """Read the holds of a purge's stream again: the watch may be late, or have shown one since the decision.

        Raises:
            ConflictError: they have changed.
        """
        task, run = create.document.task, create.run
        if not isinstance(task, PurgeTask) or run.stream is None:
            return
        kind = RESOURCES["MessageStream"]
        path = kind.path(run.namespace, run.stream)
        self._put({**await self._client.get(path), "kind": kind.name})
        stream = self._cache.resource((kind.name, run.namespace, run.stream))
        if not isinstance(stream, MessageStream) or holds_of(stream) != task.holds:
            raise ConflictError("GET", path, 409, "Conflict", "the stream's holds have changed")

    async def _set_finalizers(self, resource: Resource, change: Callable[[list[str]], list[str]]) -> None:
        newest = self._cache.resource(resource.identity) or resource
        known = list(newest.metadata.finalizers)
        if (finalizers := change(known)) == known:
            return
        metadata = {"resourceVersion": newest.metadata.resource_version, "finalizers": finalizers}
        try:
            self._put(await self._client.merge_patch(_path(resource), {"metadata": metadata}))
        except NotFoundError:
            return

    def _put(self, document: ApiObject) -> None:
        self._enqueue(self._cache.put(document))


def _path(resource: Resource, subresource: str | None = None) -> str:
    kind, namespace, name = resource.identity
    return RESOURCES[kind].path(namespace, name, subresource)


_changes = logging.getLogger("messagestore_operator.resources")


def log_change(resource: Resource, after: Status) -> None:
    """A line if the phase of a resource, or the reason of its condition Ready, has changed."""
    old, new = _state(resource.status), _state(after)
    if old == new:
        return
    level = logging.WARNING if new[0] in _NEED_SOMEBODY else logging.INFO
    tell(_changes, level, "state changed", {**_names(resource), "from": old[0], "to": new[0], "reason": new[1]})


def log_deleted(resource: Resource) -> None:
    """A line about a resource that is gone."""
    phase, _ = _state(resource.status)
    tell(
        _changes,
        logging.INFO,
        "state changed",
        {**_names(resource), "from": phase, "to": "Deleted", "reason": "Deleted"},
    )


def log_run(resource: Resource, ended: EndedRun) -> None:
    """A line about how a run ended: its result, its counts, and how long it waited, started and worked."""
    run = ended.run
    fields = {
        **_names(resource),
        "run": run.name,
        "runKind": run.kind,
        "attempt": run.attempt,
        "result": ended.state,
        "reason": ended.error.reason if ended.error else None,
        "seconds": {
            "waiting": _seconds(run.requested_at, run.launched_at),
            "starting": _seconds(run.launched_at, run.started_at),
            "working": _seconds(run.started_at, ended.at),
        },
        "counts": counts_of(ended.report.outcome if ended.report else None),
    }
    tell(_changes, logging.WARNING if ended.state == "Failed" else logging.INFO, "run ended", fields)


def _names(resource: Resource) -> dict[str, Any]:
    kind, namespace, name = resource.identity
    return {"kind": kind, "namespace": namespace, "name": name}


def _state(status: Status | None) -> tuple[str | None, str | None]:
    ready = condition_of(status, "Ready")
    return (status.phase if status else None), (ready.reason if ready else None)


def _seconds(since: Time | None, until: Time | datetime | None) -> float | None:
    if since is None or until is None:
        return None
    end = until if isinstance(until, datetime) else until.datetime
    return round(max(0.0, (end - since.datetime).total_seconds()), 1)
