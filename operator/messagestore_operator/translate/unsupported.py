"""Valid fields that this release doesn't support: they are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.translate.annotations import RESET_TO, reset_to
from messagestore_operator.translate.folders import folders, own_overlaps
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.storage import out_of_reach, refused_locations, stream_locations

_DOCUMENTS = ("headers", "metadata", "result")


def refusals(resource: Resource) -> tuple[RefusedField, ...]:
    """All fields of the resource that this release doesn't support."""
    if isinstance(resource, MessageStream):
        return (*_of_envelope(resource), *refused_locations(stream_locations(resource)), *own_overlaps(resource))
    return (
        *(RefusedField(one.path, words) for one in folders(resource) if (words := out_of_reach(one.uri)) is not None),
        *_of_reset(resource),
    )


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError if the resource asks for something that this release doesn't support."""
    if refused := refusals(resource):
        raise NotSupportedError(refused)


def _of_reset(resource: Resource) -> Iterator[RefusedField]:
    """An annotation that moves a cursor to nowhere."""
    if isinstance(resource, ReplayJob):
        try:
            reset_to(resource)
        except ValueError:
            words = "must be Beginning, Now, a global position, or a time in UTC such as 2026-01-05T08:00:00Z"
            yield RefusedField(("metadata", "annotations", RESET_TO), words)


def _of_envelope(stream: MessageStream) -> Iterator[RefusedField]:
    """Mappings that can find nothing, or only values that the field can't have."""
    fields = stream.spec.envelope.fields.given() if stream.spec.envelope.fields else {}
    for name, mapping in fields.items():
        path = ("spec", "envelope", "fields", name)
        if mapping.path is not None or mapping.value is not None:
            continue
        if stream.spec.source.kafka is None:
            yield RefusedField(path, "only records of Kafka have a header or record: give a path, or a value")
        elif name in _DOCUMENTS:
            yield RefusedField(path, f"{name} is a JSON document: give a path to it in the record's value")
