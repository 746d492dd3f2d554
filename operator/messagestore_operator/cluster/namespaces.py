"""Which namespaces are being deleted: nothing new can be made there."""

from __future__ import annotations

import time
from collections.abc import Callable

from messagestore_operator.cluster.client import ForbiddenError, KubeClient
from messagestore_operator.cluster.documents import at

_FRESH_SECONDS = 30.0


class Namespaces:
    """Answers from memory for a while: an answer that is out of date only costs a request that is refused."""

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[bool, float]] = {}

    async def terminating(self, name: str) -> bool:
        """Whether a namespace is being deleted, or gone."""
        known = self._known.get(name)
        if known is not None and self._clock() - known[1] < _FRESH_SECONDS:
            return known[0]
        try:
            namespace = await self._client.find(f"/api/v1/namespaces/{name}")
            found = namespace is None or at(namespace, "status", "phase") == "Terminating"
        except ForbiddenError:
            # Not to be known; then it shows when something can't be made there.
            found = False
        self.note(name, found)
        return found

    def note(self, name: str, terminating: bool) -> None:
        """Remember what an answer of the API server has shown."""
        self._known[name] = (terminating, self._clock())
