"""Kubernetes Events on the three kinds: what a person would want to know, said once and then counted.

An Event's name is a function of what it says about which object, so that the same one said again, also by another
replica or after a restart, raises the count of the first.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode

from messagestore_operator.api.resource import Resource
from messagestore_operator.cluster.client import AlreadyExistsError, ApiError, ForbiddenError, KubeClient, NotFoundError
from messagestore_operator.cluster.kinds import EVENTS
from messagestore_operator.cluster.labels import MANAGER

_log = logging.getLogger(__name__)
_QUIET_SECONDS = 60.0
"""The same Event isn't sent more often."""
_REMEMBERED = 10_000
_MAX_MESSAGE = 1024
"""The API server takes no longer ones."""


@dataclass(frozen=True)
class Happening:
    """One thing to say: a constant for machines, and words for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Events:
    """Sends Events; one that can't be sent is logged and forgotten, because the status says the same."""

    def __init__(self, client: KubeClient, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._sent: OrderedDict[str, float] = OrderedDict()
        self._counts: dict[str, int] = {}

    async def say(self, resource: Resource, happening: Happening) -> None:
        """Send an Event about a resource, unless the same was sent a moment ago."""
        name = _name(resource, happening)
        if not self._is_due(name):
            return
        try:
            await self._send(resource, happening, name)
        except ApiError as error:
            _log.warning("an Event was lost: %s", error)

    def _is_due(self, name: str) -> bool:
        now, last = self._clock(), self._sent.get(name)
        if last is not None and now - last < _QUIET_SECONDS:
            return False
        self._sent[name] = now
        self._sent.move_to_end(name)
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)
        return True

    async def _send(self, resource: Resource, happening: Happening, name: str) -> None:
        namespace, now = resource.metadata.namespace, _time(datetime.now(UTC))
        try:
            event = _event(resource, happening, name, now, self._instance)
            await self._client.create(EVENTS.path(namespace), event)
        except AlreadyExistsError:
            await self._count(EVENTS.path(namespace, name), now)

    async def _count(self, path: str, now: str) -> None:
        """Say a known Event again; how often it was said before this operator started it doesn't know."""
        self._counts[path] = self._counts.get(path, 1) + 1
        try:
            await self._client.merge_patch(path, {"count": self._counts[path], "lastTimestamp": now})
        except NotFoundError:
            # It ran out between the two requests: it has been read by then.
            del self._counts[path]


async def last_warning(client: KubeClient, namespace: str, pod: str) -> str:
    """What the cluster last warned of about a pod; empty where it didn't, or where this operator may not know."""
    query = urlencode({"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod},type=Warning"})
    try:
        found = await client.get(f"{EVENTS.path(namespace)}?{query}")
    except ForbiddenError:
        return ""
    events = sorted(found.get("items") or [], key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(events[-1].get("message") or "")[:_MAX_MESSAGE] if events else ""


def _name(resource: Resource, happening: Happening) -> str:
    said = "\0".join([resource.metadata.uid or "", happening.type, happening.reason, happening.message])
    return f"{resource.metadata.name}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _event(resource: Resource, happening: Happening, name: str, now: str, instance: str) -> dict[str, Any]:
    kind, namespace, owner = resource.identity
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": kind,
            "namespace": namespace,
            "name": owner,
            "uid": resource.metadata.uid,
            "resourceVersion": resource.metadata.resource_version,
        },
        "type": happening.type,
        "reason": happening.reason,
        "message": happening.message[:_MAX_MESSAGE],
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": instance,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
