"""What a resource may say and this release can't do yet: refused by name, never passed over."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.translate.refusal import NotSupportedError, Refusal
from messagestore_operator.translate.storage import refused_places, stream_places


def refusals(resource: Resource) -> tuple[Refusal, ...]:
    """All that this release can't do of what the resource asks."""
    if isinstance(resource, MessageStream):
        return tuple(_of_stream(resource))
    return ()


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError where the resource asks for what this release can't do."""
    if found := refusals(resource):
        raise NotSupportedError(found)


def _of_stream(stream: MessageStream) -> Iterator[Refusal]:
    if stream.spec.lifecycle is not None and stream.spec.lifecycle.source.kafka is not None:
        yield Refusal(("spec", "lifecycle", "source", "kafka"), "this release reads status updates from files only")
    yield from refused_places(stream_places(stream))
