"""Which namespaces are being deleted or paused: no new run starts there."""

from __future__ import annotations

import time
from collections.abc import Callable

from messagestore_operator.kube.client import ForbiddenError, KubeClient
from messagestore_operator.kube.objects import at
from messagestore_operator.translate.annotations import PAUSED

_FRESH_SECONDS = 30.0


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
        if seen is not None and self._clock() - seen < _FRESH_SECONDS:
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
