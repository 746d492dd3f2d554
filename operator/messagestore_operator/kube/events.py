"""Kubernetes Events, sent once and then counted.

An Event's name is a hash of its object and its text. So a repeated Event, even from another replica or after a restart,
raises the count of the first. As with Kubernetes' own recorder, each object has a budget: 25 Events at once, and then
one in five minutes. Events beyond it are counted by the next one with the same text.
"""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

from messagestore_operator.kube.client import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    KubeClient,
    NotFoundError,
    TooLargeError,
)
from messagestore_operator.kube.objects import EVENTS, MANAGER, NewEvent, ObjectReference, time_text
from messagestore_operator.kube.ratelimit import TokenBucket

K = TypeVar("K")
V = TypeVar("V")
_log = logging.getLogger(__name__)
_QUIET_SECONDS = 60.0
"""The minimum time between two sends of the same Event."""
_ROUTINE_SECONDS = 1800.0
"""The same for a routine Event; the API server keeps an Event for an hour after it was last sent."""
_AT_ONCE = 25
_A_SECOND = 1 / 300
_REMEMBERED = 10_000
_MAX_MESSAGE = 1024
"""The API server refuses longer ones."""


@dataclass(slots=True)
class _Series:
    """One Event and its repetitions: how many there were, how many of them the Event counts, and when it was sent."""

    count: int = 0
    sent: int = 0
    at: float = -_ROUTINE_SECONDS


class Events:
    """Sends Events. A failure is only logged and the Event counted later, because the status has the same facts."""

    def __init__(self, client: KubeClient, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()
        """By uid and type, so that Normal Events leave room for Warnings."""

    async def record(self, about: ObjectReference, event: NewEvent) -> None:
        """Send an Event about an object, unless the same was sent a moment ago, or the budget is used up."""
        name, now = _name(about, event), self._clock()
        series = _kept(self._series, name, _Series)
        series.count += 1
        quiet = _ROUTINE_SECONDS if event.routine else _QUIET_SECONDS
        if now - series.at < quiet or not self._budget(about, event).take():
            return
        series.at = now
        try:
            await self._send(about, event, name, series)
        except ApiError as error:
            _log.warning("an Event was lost: %s", error)

    def _budget(self, about: ObjectReference, event: NewEvent) -> TokenBucket:
        key = (about.uid, event.type)
        return _kept(self._budgets, key, lambda: TokenBucket(_A_SECOND, _AT_ONCE, self._clock))

    async def _send(self, about: ObjectReference, event: NewEvent, name: str, series: _Series) -> None:
        """Send a new Event, or raise the count of the existing one."""
        namespace, now = about.namespace, time_text(datetime.now(UTC), "seconds")
        path = EVENTS.path(namespace, name)
        if series.sent:
            try:
                await self._client.merge_patch(path, {"count": series.count, "lastTimestamp": now})
                series.sent = series.count
                return
            except NotFoundError:
                # The Event expired, as Events do after an hour, so a new one is created.
                series.count, series.sent = series.count - series.sent, 0
        document = _event(about, event, name, now, self._instance)
        try:
            await self._client.create(EVENTS.path(namespace), {**document, "count": series.count})
        except AlreadyExistsError:
            # Another process has sent it before.
            known = await self._client.merge_patch(path, {"lastTimestamp": now})
            series.count += int(known.get("count") or 1)
            await self._client.merge_patch(path, {"count": series.count})
        series.sent = series.count


async def last_warning(client: KubeClient, namespace: str, pod: str) -> str:
    """The last Warning about a pod; empty if there is none, or too many, or the operator may not read Events."""
    query = urlencode({"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod},type=Warning"})
    try:
        listed = await client.get(f"{EVENTS.path(namespace)}?{query}")
    except (ForbiddenError, TooLargeError):
        return ""
    events = sorted(listed.get("items") or [], key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(events[-1].get("message") or "")[:_MAX_MESSAGE] if events else ""


def _kept(of: OrderedDict[K, V], key: K, new: Callable[[], V]) -> V:
    """The value of a key in a cache of the most recently used."""
    value = of[key] = of.pop(key, None) or new()
    while len(of) > _REMEMBERED:
        of.popitem(last=False)
    return value


def _name(about: ObjectReference, event: NewEvent) -> str:
    text = "\0".join([about.uid, event.type, event.reason, event.message])
    return f"{about.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _event(about: ObjectReference, event: NewEvent, name: str, now: str, instance: str) -> dict[str, Any]:
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.name,
        "metadata": {"name": name, "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:_MAX_MESSAGE],
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": instance,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
