"""Reading everything there is: at the start, and now and then after, because a watch may have missed something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from messagestore_operator.cluster.cache import Cache, ResourceKey
from messagestore_operator.cluster.client import ApiError, KubeClient, NotFoundError
from messagestore_operator.cluster.documents import Document, name_of, namespace_of
from messagestore_operator.cluster.health import Health
from messagestore_operator.cluster.kinds import LEASES, RESOURCES, Kind
from messagestore_operator.cluster.labels import SELECTOR
from messagestore_operator.cluster.metrics import Metrics

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 5.0
"""A watch may be so much behind a list."""


class KindMissingError(Exception):
    """The API server doesn't know a kind that the operator can't do without."""


class Sync:
    """Lists all kinds into the cache.

    Args:
        kinds: that are watched.
        namespaces: that are served; empty means all.
        own_namespace: where the Leases are.
        touched: is given the resources that something new may make a difference to.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        kinds: Sequence[Kind],
        namespaces: Sequence[str],
        own_namespace: str,
        touched: Callable[[Iterable[ResourceKey]], None],
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._client = client
        self._cache = cache
        self._kinds = kinds
        self._namespaces = namespaces
        self._own_namespace = own_namespace
        self._touched = touched
        self._metrics = metrics
        self._health = health

    async def fill(self) -> None:
        """Read everything for the first time.

        Raises:
            KindMissingError: a kind is not installed; names it.
            ApiError: something can't be read.
        """
        for kind in (*self._kinds, LEASES):
            try:
                async for document in self._list(kind):
                    self._cache.put(document)
            except NotFoundError as error:
                raise KindMissingError(f"{kind.plural}.{kind.group} is not installed in this cluster") from error
        self._touched(resource.identity for resource in self._cache.resources())
        self._health.synced()

    async def keep_up(self, every: float) -> None:
        """Read everything again and again, and look at every resource then."""
        while True:
            await asyncio.sleep(every)
            try:
                missed = sum([await self._compare(kind) for kind in self._kinds])
                await self._refresh_leases()
            except ApiError as error:
                _log.warning("not everything could be read: %s", error)
                continue
            if missed:
                _log.error("watches have missed %d changes", missed)
                self._metrics.missed.inc(missed)
            self._health.synced(missed)
            self._touched(resource.identity for resource in self._cache.resources())

    async def _compare(self, kind: Kind) -> int:
        """Read a kind, wait for its watch to show the same, make up for the rest, and return how much that is."""
        before, listed, newer = self._cache.versions(), list[tuple[str, str]](), list[Document]()
        async for document in self._list(kind):
            # Of thousands of objects as they are sent, only those that a watch has not shown yet are held.
            listed.append((namespace_of(document), name_of(document)))
            if self._cache.is_news(document):
                newer.append(document)
        if newer:
            await asyncio.sleep(_GRACE_SECONDS)
            newer = [document for document in newer if self._cache.is_news(document)]
        for document in newer:
            self._touched(self._cache.put(document))
        self._touched(self._cache.forget_others(kind.name, listed, before))
        return len(newer)

    async def _refresh_leases(self) -> None:
        """Leases aren't watched: but for people, only the leader changes them."""
        before, listed = self._cache.versions(), list[tuple[str, str]]()
        async for document in self._list(LEASES):
            listed.append((namespace_of(document), name_of(document)))
            self._touched(self._cache.put(document))
        self._touched(self._cache.forget_others(LEASES.name, listed, before))

    async def _list(self, kind: Kind) -> AsyncIterator[Document]:
        if kind is LEASES:
            paths = [kind.path(self._own_namespace)]
        else:
            paths = [kind.path(namespace) for namespace in self._namespaces] or [kind.path(None)]
        selector = "" if kind in RESOURCES.values() else SELECTOR
        for path in paths:
            async for document in self._client.items(path, selector):
                yield document
