"""Watches the metadata of objects, whose content tenants may make as large as the API server takes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from messagestore_operator.cluster.api_objects import ApiObject, at
from messagestore_operator.cluster.client import ApiError, GoneError, KubeClient
from messagestore_operator.cluster.kinds import Kind
from messagestore_operator.cluster.labels import SELECTOR

Seen = Callable[[str | None, ApiObject], None]
"""Receives the type of a change (ADDED, MODIFIED, DELETED; None in a list at the start of a watch) and the object."""
_log = logging.getLogger(__name__)
_PAUSE_SECONDS = (0.1, 30.0)
"""Seconds between two watches, and the maximum if they fail."""


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
