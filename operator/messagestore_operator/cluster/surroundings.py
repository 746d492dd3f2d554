"""Namespaces and Secrets, which no watch shows: what the API server says of them is remembered for a while."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from messagestore_operator.decide.blockers import Need
from messagestore_operator.decide.snapshot import Uses
from messagestore_operator.kube.client import ForbiddenError, KubeClient
from messagestore_operator.kube.objects import SECRETS, at, labels_of, metadata
from messagestore_operator.names import PAUSED
from messagestore_operator.tenancy.settings import USE_LABEL
from messagestore_operator.translate.secrets import digest

_ACTIVE_SECONDS = 30.0
_FRESH_SECONDS = 60.0
_CHANGED_SECONDS = 180.0
"""How long a change of a Secret may go unnoticed by a run that uses it."""
_MISSED_SECONDS = 5.0
"""A missing Secret is looked for again after this time, as somebody may create it."""
_BELIEVED_SECONDS = 10.0
"""An API server that has just started refuses requests until it has read the Roles."""


class Namespaces:
    """Remembers for a while that a namespace is active; if that changes, the API server refuses requests.

    A namespace that is being deleted or is paused is read each time, as it may soon be active again.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._well: dict[str, float] = {}
        self._paused: set[str] = set()

    async def terminating(self, name: str) -> bool:
        """Whether a namespace is being deleted or is gone."""
        seen = self._well.get(name)
        if seen is not None and self._clock() - seen < _ACTIVE_SECONDS:
            return False
        try:
            namespace = await self._client.find(f"/api/v1/namespaces/{name}")
            is_terminating = namespace is None or at(namespace, "status", "phase") == "Terminating"
            is_paused = at(namespace, "metadata", "annotations", PAUSED) == "true"
            (self._paused.add if is_paused else self._paused.discard)(name)
        except ForbiddenError:
            # The operator may not read namespaces: the launch will fail instead.
            is_terminating = False
        self.note(name, is_terminating or name in self._paused)
        return is_terminating

    def paused(self, name: str) -> bool:
        """Whether a namespace was paused by annotation when it was last read."""
        return name in self._paused

    def note(self, name: str, unwell: bool) -> None:
        """Remember the answer of the API server."""
        if unwell:
            self._well.pop(name, None)
        else:
            self._well[name] = self._clock()


@dataclass(frozen=True)
class _Secret:
    """What the API server said of a Secret at a time."""

    read_at: float
    uses: frozenset[str] | None
    """None: it doesn't exist."""
    version: str = ""
    """Another one after each change; empty if it doesn't exist or may not be read."""


class Secrets:
    """Reads the metadata of Secrets, and remembers it for a while, as many runs use the same Secret."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str], _Secret] = {}
        self._forbidden: dict[tuple[str, str], float] = {}
        """Secrets that the operator may not read, and since when."""

    async def uses(self, namespace: str, needs: Iterable[Need]) -> Uses:
        """The needed Secrets that exist, each with the uses that its label allows.

        Raises:
            ApiError: the API server could not be asked, or has only just begun to forbid it.
        """
        uses_by_secret = {need.secret: await self._uses(namespace, need) for need in sorted(needs)}
        return {name: uses for name, uses in uses_by_secret.items() if uses is not None}

    async def version(self, namespace: str, needs: Iterable[Need]) -> str | None:
        """A digest of the needed Secrets' versions; None if there are none, or one can't be read.

        Raises:
            ApiError: the API server could not be asked, or has only just begun to forbid it.
        """
        names = sorted({need.secret for need in needs})
        versions = [(await self._seen((namespace, name), _CHANGED_SECONDS)).version for name in names]
        return digest(*versions) if versions and all(versions) else None

    async def _uses(self, namespace: str, need: Need) -> frozenset[str] | None:
        key = namespace, need.secret
        known = self._known.get(key)
        allowed = known is not None and known.uses is not None and need.allowed_by(known.uses)
        return (await self._seen(key, _FRESH_SECONDS if allowed else _MISSED_SECONDS)).uses

    async def _seen(self, key: tuple[str, str], lasts: float) -> _Secret:
        """What is known of a Secret for no longer than ``lasts`` seconds."""
        now, known = self._clock(), self._known.get(key)
        if known is not None and now - known.read_at < lasts:
            return known
        seen = await self._read(*key)
        self._known = {one: known for one, known in self._known.items() if now - known.read_at < _CHANGED_SECONDS}
        self._known[key] = seen
        return seen

    async def _read(self, namespace: str, name: str) -> _Secret:
        now = self._clock()
        try:
            secret = await self._client.find_metadata(SECRETS.path(namespace, name))
        except ForbiddenError:
            if now - self._forbidden.setdefault((namespace, name), now) < _BELIEVED_SECONDS:
                raise
            # The right to read was removed: a Secret that can't be checked is not allowed.
            return _Secret(now, frozenset())
        self._forbidden.pop((namespace, name), None)
        if secret is None:
            return _Secret(now, None)
        uses = frozenset(labels_of(secret).get(USE_LABEL, "").split("."))
        own = metadata(secret)
        return _Secret(now, uses, f"{own.get('uid', '')} {own.get('resourceVersion', '')}".strip())
