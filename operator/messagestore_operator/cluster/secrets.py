"""The allowed uses of Secrets, by their labels; their values are never read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from messagestore_operator.decide.needs import Need, Uses
from messagestore_operator.kube.client import ForbiddenError, KubeClient
from messagestore_operator.kube.objects import SECRETS, labels_of
from messagestore_operator.tenancy.secrets import USE_LABEL

_FRESH_SECONDS = 60.0
_MISSED_SECONDS = 5.0
"""A missing Secret is looked for again after this time, as somebody may create it."""
_BELIEVED_SECONDS = 10.0
"""An API server that has just started refuses requests until it has read the Roles."""


class Secrets:
    """Reads the metadata of Secrets, and remembers it for a while, as many runs use the same Secret."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, frozenset[str] | None]] = {}
        self._forbidden: dict[tuple[str, str], float] = {}
        """Secrets that the operator may not read, and since when."""

    async def uses(self, namespace: str, needs: Iterable[Need]) -> Uses:
        """The needed Secrets that exist, each with the uses that its label allows.

        Raises:
            ApiError: the API server could not be asked, or has only just begun to forbid it.
        """
        uses_by_secret = {need.secret: await self._uses(namespace, need) for need in sorted(needs)}
        return {name: uses for name, uses in uses_by_secret.items() if uses is not None}

    async def _uses(self, namespace: str, need: Need) -> frozenset[str] | None:
        now, key = self._clock(), (namespace, need.secret)
        read_at, uses = self._known.get(key, (-_FRESH_SECONDS, None))
        lasts = _FRESH_SECONDS if uses is not None and need.allowed_by(uses) else _MISSED_SECONDS
        if now - read_at < lasts:
            return uses
        uses = await self._read(*key)
        self._known = {one: known for one, known in self._known.items() if now - known[0] < _FRESH_SECONDS}
        self._known[key] = now, uses
        return uses

    async def _read(self, namespace: str, name: str) -> frozenset[str] | None:
        try:
            secret = await self._client.find_metadata(SECRETS.path(namespace, name))
        except ForbiddenError:
            now = self._clock()
            if now - self._forbidden.setdefault((namespace, name), now) < _BELIEVED_SECONDS:
                raise
            # The right to read was removed: a Secret that can't be checked is not allowed.
            return frozenset()
        self._forbidden.pop((namespace, name), None)
        return None if secret is None else frozenset(labels_of(secret).get(USE_LABEL, "").split("."))
