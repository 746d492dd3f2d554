"""What a resource may say and this release can't do yet: refused by name, never passed over."""

from __future__ import annotations

from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.translate.refusal import NotSupportedError, Refusal
from messagestore_operator.translate.storage import refused_places, stream_places


def refusals(resource: Resource) -> tuple[Refusal, ...]:
    """All that this release can't do of what the resource asks."""
    if isinstance(resource, MessageStream):
        return tuple(refused_places(stream_places(resource)))
    return ()


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError where the resource asks for what this release can't do."""
    if found := refusals(resource):
        raise NotSupportedError(found)
