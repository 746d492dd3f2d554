"""Which namespaces are being deleted: nothing new can be made there."""

from __future__ import annotations

import time
from collections.abc import Callable

from messagestore_operator.cluster.client import ForbiddenError, KubeClient
from messagestore_operator.cluster.documents import at

_FRESH_SECONDS = 30.0


class Namespaces:
    """That a namespace is well is remembered for a while: where it is so no more, a request is refused.

    That one is being deleted is asked anew each time, as it may have been made again a moment later.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._well: dict[str, float] = {}

    async def terminating(self, name: str) -> bool:
        """Whether a namespace is being deleted, or gone."""
        seen = self._well.get(name)
        if seen is not None and self._clock() - seen < _FRESH_SECONDS:
            return False
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
        if terminating:
            self._well.pop(name, None)
        else:
            self._well[name] = self._clock()
