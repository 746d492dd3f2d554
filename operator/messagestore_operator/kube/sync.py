"""Lists all objects, at the start and then periodically, as a watch may have missed changes; watches metadata."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from messagestore_operator.kube.cache import ObjectCache, Versions
from messagestore_operator.kube.client import JSON, ApiError, ForbiddenError, GoneError, KubeClient, NotFoundError
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import SELECTOR, ApiObject, Kind, ResourceKey, at, name_of, namespace_of

Seen = Callable[[str | None, ApiObject], None]
"""Receives the type of a change (ADDED, MODIFIED, DELETED; None in a list at the start of a watch) and the object."""
_log = logging.getLogger(__name__)
_PAUSE_SECONDS = (0.1, 30.0)
"""Seconds between two watches, and the maximum if they fail."""
T = TypeVar("T")
_GRACE_SECONDS = 5.0
"""How far a watch may be behind a list."""
_RETRY_SECONDS = (1.0, 60.0)
"""Seconds between the first two tries of the first list, and the maximum between later ones."""
_MISSING_SECONDS = 10.0
"""How often the operator looks for a kind that is not installed, or a namespace that it may not read."""


async def watched(client: KubeClient, kind: Kind, namespace: str | None, seen: Seen) -> None:
    """Pass on changes of the operator's objects of a kind, without end.

    Args:
        namespace: the only one; None: all.
        seen: receives the type of a change, and the object's metadata.
    """
    version = ""
    pause, longest = _PAUSE_SECONDS
    while True:
        try:
            async for event, document in client.watch(kind.path(namespace), SELECTOR, version):
                version, pause = str(at(document, "metadata", "resourceVersion")), _PAUSE_SECONDS[0]
                if event != "BOOKMARK":
                    seen(event, {**document, "kind": kind.name})
        except GoneError:
            version = ""
        except ApiError as error:
            _log.warning("%s can't be watched: %s", kind.plural, error)
            pause = min(2 * pause, longest)
        await asyncio.sleep(pause)


class KindMissingError(Exception):
    """The API server doesn't know a kind that the operator needs."""


@dataclass(frozen=True)
class Listing:
    """What is listed of a kind, and how.

    Attributes:
        namespaces: those to list; none: all.
        selector: of labels.
        accept: the form of the answer: ``METADATA_LIST`` for kinds whose objects may be large.
        watched: whether a watch shows changes, so that a list must wait for it.
        optional: whether the kind may not be installed; at most one is.
    """

    kind: Kind
    namespaces: Sequence[str] = ()
    selector: str = ""
    accept: str = JSON
    watched: bool = True
    optional: bool = False


class Sync:
    """Lists all kinds into the cache.

    Args:
        listings: in the order in which they are listed.
        enqueue: receives the resources that a change may affect.
        health: is told when everything was listed.
        count_missed: receives the number of changes that watches had not shown.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: ObjectCache,
        listings: Sequence[Listing],
        enqueue: Callable[[Iterable[ResourceKey]], None],
        health: Health,
        count_missed: Callable[[int], None],
    ) -> None:
        self._client = client
        self._cache = cache
        self._listings = listings
        self._enqueue = enqueue
        self._health = health
        self._count_missed = count_missed
        self._forbidden: set[str] = set()
        """Namespaces that it may not read now: one that is deleted takes the operator's Role with it."""
        self._reading = asyncio.Lock()

    @property
    def namespaces(self) -> list[str]:
        """The chosen namespaces that it may read; none: all are watched."""
        chosen = dict.fromkeys(name for one in self._listings if one.watched for name in one.namespaces)
        return [name for name in chosen if name not in self._forbidden]

    @property
    def kinds(self) -> list[Kind]:
        """The watched kinds that are installed."""
        return [one.kind for one in self._present() if one.watched]

    def _present(self) -> list[Listing]:
        missing = self._cache.missing_kind is not None
        return [one for one in self._listings if not (missing and one.optional)]

    async def fill(self) -> None:
        """Read everything for the first time; failed reads are retried.

        Raises:
            KindMissingError: a kind that the operator needs is not installed; the message names it.
        """
        for listing in self._listings:
            await self._fill(listing)
        await self._discovered()
        self._touch_all()
        self._health.synced()

    async def changed(self, watched: Sequence[str]) -> None:
        """Return once a missing kind is installed, or other namespaces may be read than those that are watched."""
        while self.namespaces == watched:
            await asyncio.sleep(_MISSING_SECONDS)
            if self._cache.missing_kind is not None:
                for listing in self._listings:
                    if listing.optional:
                        await self._fill(listing)
                if self._cache.missing_kind is None:
                    await self._discovered()
                    break
            for namespace in sorted(self._forbidden):
                await self._read_again(namespace)
        self._touch_all()

    async def has_lost_one_of(self, watched: Sequence[str]) -> bool:
        """Whether one of the chosen namespaces, which are watched, may no longer be read, but others may."""
        if not watched:
            return False
        try:
            await self._compare_all()
        except ApiError:
            return False
        return not {*watched} <= {*self.namespaces}

    async def _read_again(self, namespace: str) -> None:
        """Read a namespace if the API server allows it again."""
        async with self._reading:
            try:
                for listing in self._present():
                    if listing.watched:
                        await self._read(replace(listing, namespaces=[namespace]))
            except ApiError:
                return
            self._forbidden.remove(namespace)
        _log.warning("namespace %s can be read again", namespace)

    async def _fill(self, listing: Listing) -> None:
        """Read a kind for the first time, or find it missing."""
        kind = listing.kind
        missing = not await self._until_answered(kind.plural, lambda: self._read(listing))
        if listing.optional:
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

    async def _read(self, listing: Listing) -> bool:
        """List all objects of a kind into the cache; returns whether it is installed."""
        try:
            async for document in self._list(listing):
                self._cache.put(document)
        except NotFoundError:
            return False
        return True

    def _note(self, missing: str | None) -> None:
        if missing is not None and self._cache.missing_kind is None:
            _log.error("%s is not installed: no run can start before it is", missing)
        self._cache.missing_kind = missing

    def _touch_all(self) -> None:
        self._enqueue(self._cache.keys())

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
                self._count_missed(missed)
            self._health.synced(missed)
            self._touch_all()

    async def _compare_all(self) -> int:
        """List everything, and return the number of changes that the watches had not shown.

        What isn't watched changes only by the operator's own writes, and by people. It is put into the cache last.
        """
        async with self._reading:
            before = self._cache.versions()
            unwatched = [(one, *await self._newer(one)) for one in self._listings if not one.watched]
            missed = sum([await self._compare(one) for one in self._present() if one.watched])
            for listing, listed, newer in unwatched:
                self._put(listing, listed, newer, before)
            return missed

    async def _compare(self, listing: Listing) -> int:
        """List a kind, wait for its watch, put missed changes into the cache, and return their number."""
        before = self._cache.versions()
        listed, newer = await self._newer(listing)
        if newer:
            await asyncio.sleep(_GRACE_SECONDS)
            newer = [document for document in newer if self._cache.is_newer(document)]
        self._put(listing, listed, newer, before)
        return len(newer)

    async def _newer(self, listing: Listing) -> tuple[list[tuple[str, str]], list[ApiObject]]:
        """Namespace and name of all objects of a kind; of thousands, only those are held that the cache lacks."""
        listed, newer = list[tuple[str, str]](), list[ApiObject]()
        async for document in self._list(listing):
            listed.append((namespace_of(document), name_of(document)))
            if self._cache.is_newer(document):
                newer.append(document)
        return listed, newer

    def _put(self, listing: Listing, listed: list[tuple[str, str]], newer: list[ApiObject], before: Versions) -> None:
        for document in newer:
            self._enqueue(self._cache.put(document))
        # What may not be read may still be there, and may still write.
        self._enqueue(self._cache.forget_others(listing.kind.name, listed, before, self._forbidden))

    async def _list(self, listing: Listing) -> AsyncIterator[ApiObject]:
        """The objects of a kind, without those of namespaces that may not be read if others may.

        Raises:
            ApiError: the API server could not be asked, or allows no namespace.
        """
        kind = listing.kind
        chosen: Sequence[str | None] = listing.namespaces or [None]
        for namespace in chosen:
            try:
                async for document in self._client.items(kind.path(namespace), listing.selector, listing.accept):
                    yield {**document, "kind": kind.name}
            except ForbiddenError as error:
                if namespace is None or not listing.watched or set(listing.namespaces) <= {*self._forbidden, namespace}:
                    raise
                self._forbid(namespace, error)

    def _forbid(self, namespace: str, error: ForbiddenError) -> None:
        if namespace not in self._forbidden:
            _log.error("namespace %s can't be read, the others are: %s", namespace, error)
        self._forbidden.add(namespace)
