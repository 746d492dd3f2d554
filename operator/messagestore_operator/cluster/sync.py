"""Lists all objects at the start and then periodically, because a watch may have missed changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from messagestore_operator.cluster.api_objects import ApiObject, name_of, namespace_of
from messagestore_operator.cluster.client import JSON, METADATA_LIST, ApiError, NotFoundError
from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.kinds import CONFIG_MAPS, LEASES, RESOURCES, Kind
from messagestore_operator.cluster.labels import SELECTOR
from messagestore_operator.cluster.metrics import Telemetry
from messagestore_operator.cluster.references import ResourceKey
from messagestore_operator.settings import Settings

_log = logging.getLogger(__name__)
T = TypeVar("T")
_GRACE_SECONDS = 5.0
"""How far a watch may be behind a list."""
_RETRY_SECONDS = (1.0, 60.0)
"""Seconds between the first two tries of the first list, and the maximum between later ones."""
_MISSING_SECONDS = 10.0
"""How often the operator looks for a kind that is not installed."""


class KindMissingError(Exception):
    """The API server doesn't know a kind that the operator needs."""


class Sync:
    """Lists all kinds into the cache.

    Args:
        kinds: watched kinds; the backend's may not be installed: until it is, there are no runs.
        settings: have the watched namespaces, and that of the Leases.
        enqueue: receives the resources that a change may affect.
    """

    def __init__(
        self,
        cluster: Cluster,
        kinds: Sequence[Kind],
        settings: Settings,
        enqueue: Callable[[Iterable[ResourceKey]], None],
        telemetry: Telemetry,
    ) -> None:
        self._client = cluster.client
        self._cache = cluster.cache
        self._applications = cluster.backend.kind
        self._kinds = kinds
        self._namespaces = settings.watch_namespaces
        self._own_namespace = settings.namespace
        self._enqueue = enqueue
        self._metrics = telemetry.metrics
        self._health = telemetry.health

    @property
    def kinds(self) -> list[Kind]:
        """The watched kinds that are installed."""
        missing = self._cache.missing_kind is not None
        return [kind for kind in self._kinds if not (missing and kind is self._applications)]

    async def fill(self) -> None:
        """Read everything for the first time; failed reads are retried.

        Raises:
            KindMissingError: a kind that the operator needs is not installed; the message names it.
        """
        # A Lease that is read after the statuses may name a run that no status has yet.
        for kind in (LEASES, *self._kinds):
            await self._fill(kind)
        await self._discovered()
        self._touch_all()
        self._health.synced()

    async def missing_comes(self) -> None:
        """Return once a missing kind is installed and read; never, if none is missing."""
        while True:
            await asyncio.sleep(_MISSING_SECONDS)
            if self._cache.missing_kind is not None:
                await self._fill(self._applications)
                if self._cache.missing_kind is None:
                    await self._discovered()
                    self._touch_all()
                    return

    async def _fill(self, kind: Kind) -> None:
        """Read a kind for the first time, or find it missing."""
        missing = not await self._until_answered(kind.plural, lambda: self._read(kind))
        if kind is self._applications:
            self._note(f"{kind.plural}.{kind.group}" if missing else None)
        elif missing:
            raise KindMissingError(f"{kind.plural}.{kind.group} is not installed in this cluster")

    async def _discovered(self) -> None:
        """Wait until the API server lists all watched kinds.

        An API server that has just started lists custom kinds some time after it serves them. Kopf asks once, and never
        watches a kind that was not listed.
        """
        await self._until_answered("what the API server serves", self._check_discovery)

    async def _check_discovery(self) -> None:
        """Raise NotFoundError if the API server does not list a watched kind."""
        listed = await self._client.get("/apis")
        groups = {"", *(group["name"] for group in listed.get("groups") or [])}
        served: dict[str, set[str]] = {}
        for kind in self.kinds:
            if kind.resources not in served:
                resources = (await self._client.get(kind.resources)).get("resources") or []
                served[kind.resources] = {one["name"] for one in resources}
            if kind.group not in groups or kind.plural not in served[kind.resources]:
                raise NotFoundError(
                    "GET", kind.resources, 404, "NotFound", f"the API server does not list {kind.plural}"
                )

    async def _until_answered(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the API server until it answers, with growing pauses."""
        wait, longest = _RETRY_SECONDS
        while True:
            try:
                answer = await ask()
            except ApiError as error:
                _log.warning("%s can't be read yet: %s", what, error)
                self._health.unread = str(error)
            else:
                self._health.unread = ""
                return answer
            await asyncio.sleep(wait)
            wait = min(2 * wait, longest)

    async def _read(self, kind: Kind) -> bool:
        """List all objects of a kind into the cache; returns whether it is installed."""
        try:
            async for document in self._list(kind):
                self._cache.put(document)
        except NotFoundError:
            return False
        return True

    def _note(self, missing: str | None) -> None:
        if missing is not None and self._cache.missing_kind is None:
            _log.error("%s is not installed: no run can start before it is", missing)
        self._cache.missing_kind = missing

    def _touch_all(self) -> None:
        self._enqueue(resource.identity for resource in self._cache.resources())

    async def keep_up(self, every: float) -> None:
        """List everything periodically, and reconcile all resources."""
        while True:
            await asyncio.sleep(every)
            try:
                missed = await self._compare_all()
            except ApiError as error:
                _log.warning("not everything could be read: %s", error)
                continue
            if missed:
                _log.error("watches have missed %d changes", missed)
                self._metrics.missed.inc(missed)
            self._health.synced(missed)
            self._touch_all()

    async def _compare_all(self) -> int:
        """List everything, and return the number of changes that the watches had not shown.

        Leases aren't watched: apart from people, only the leader changes them. They are read first, as at the start,
        and put into the cache last.
        """
        before, listed, newer = self._cache.versions(), list[tuple[str, str]](), list[ApiObject]()
        async for document in self._list(LEASES):
            listed.append((namespace_of(document), name_of(document)))
            if self._cache.is_newer(document):
                newer.append(document)
        missed = sum([await self._compare(kind) for kind in self.kinds])
        for document in newer:
            self._enqueue(self._cache.put(document))
        self._enqueue(self._cache.forget_others(LEASES.name, listed, before))
        return missed

    async def _compare(self, kind: Kind) -> int:
        """List a kind, wait for its watch, put missed changes into the cache, and return their number."""
        before, listed, newer = self._cache.versions(), list[tuple[str, str]](), list[ApiObject]()
        async for document in self._list(kind):
            # Of thousands of objects, only those that a watch has not shown yet are held.
            listed.append((namespace_of(document), name_of(document)))
            if self._cache.is_newer(document):
                newer.append(document)
        if newer:
            await asyncio.sleep(_GRACE_SECONDS)
            newer = [document for document in newer if self._cache.is_newer(document)]
        for document in newer:
            self._enqueue(self._cache.put(document))
        self._enqueue(self._cache.forget_others(kind.name, listed, before))
        return len(newer)

    async def _list(self, kind: Kind) -> AsyncIterator[ApiObject]:
        if kind is LEASES:
            paths = [kind.path(self._own_namespace)]
        else:
            paths = [kind.path(namespace) for namespace in self._namespaces] or [kind.path(None)]
        selector = "" if kind in RESOURCES.values() else SELECTOR
        # A ConfigMap's texts may be large, and only those of some runs are needed.
        accept = METADATA_LIST if kind is CONFIG_MAPS else JSON
        for path in paths:
            async for document in self._client.items(path, selector, accept):
                yield {**document, "kind": kind.name}
