"""Kopf's handlers. Kopf only watches, all or some namespaces; the handlers pass events on.

No handler writes to an object or adds a finalizer to it. The handlers can't fail, as kopf would log an error and forget
the event: the operator reconciles resources from its own queue.
"""

from collections.abc import Iterable
from typing import Any

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from messagestore_operator.kube.connection import login
from messagestore_operator.kube.objects import SELECTOR, Kind
from messagestore_operator.kube.sync import Seen
from messagestore_operator.names import GROUP

_PAGE = 10
"""Objects per page of a list of kopf, which reads pages whole, however large their objects are."""


def registry(kinds: Iterable[Kind], seen: Seen) -> kopf.OperatorRegistry:
    """Handlers for every kind that is watched."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(login)

    async def pass_on(event: kopf.RawEvent, **_: Any) -> None:
        seen(event["type"], event["object"])

    for kind in kinds:
        kopf.on.event(kind.group, kind.version, kind.plural, registry=handlers)(pass_on)
    return handlers


class NoMemories(ResourceMemories):
    """Keeps nothing of an object between events, as no handler needs it; kopf would keep 1 KiB of each."""

    async def recall(self, raw_body: kopf.RawBody, **how: Any) -> ResourceMemory:
        """A memory for one event."""
        return await super().recall(raw_body, **{**how, "ephemeral": True})


class _NoDiffs(kopf.DiffBaseStorage):
    """Computes no differences, as no handler needs them; kopf would copy each object for every event."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:
        """Compare nothing of an object."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Know nothing of the earlier object."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing of it."""


def settings(foreign: Iterable[Kind]) -> kopf.OperatorSettings:
    """Kopf's settings.

    Args:
        foreign: kinds that are not the project's own: only objects that the operator created are watched.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    # Not the operator's finalizer: kopf removes this one from objects where no handler needs it.
    settings.persistence.finalizer = f"{GROUP}/watches"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.watching.connect_timeout = 30
    settings.watching.server_timeout = 300
    # Lists are paged, and kopf's workers drop the last version of an object as soon as they can: an operator that
    # finds thousands of applications would otherwise hold them all in memory.
    settings.watching.chunk_size = _PAGE
    settings.queueing.idle_timeout = 0.2
    # The operator's own shutdown ends the process, after requests in progress.
    settings.process.ultimate_exiting_timeout = None
    for kind in foreign:
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = SELECTOR
    return settings
