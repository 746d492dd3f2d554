"""Valid fields that this release doesn't support: they are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.translate.folders import folders
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.storage import (
    files_sources,
    job_uri,
    out_of_reach,
    refused_locations,
    stream_locations,
)

_DOCUMENTS = ("headers", "metadata", "result")


def refusals(resource: Resource) -> tuple[RefusedField, ...]:
    """All fields of the resource that this release doesn't support."""
    if isinstance(resource, MessageStream):
        return (*_of_envelope(resource), *refused_locations(stream_locations(resource)), *_of_archives(resource))
    return tuple(
        RefusedField(one.path, words) for one in folders(resource) if (words := out_of_reach(one.uri)) is not None
    )


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError if the resource asks for something that this release doesn't support."""
    if found := refusals(resource):
        raise NotSupportedError(found)


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


def _of_archives(stream: MessageStream) -> Iterator[RefusedField]:
    """Archives of source files whose copies would be ingested again or would be in the table's folder."""
    for path, files in files_sources(stream):
        for what, uri in (("uri", files.uri), ("the table's folder", stream.spec.table.uri)):
            if files.archive_uri is not None and _overlap(files.archive_uri, uri):
                words = f"must not contain {what}, {uri}, or be in it: use a folder beside it"
                yield RefusedField((*path, "archiveUri"), words)


def _overlap(one: str, other: str) -> bool:
    first, second = (f"{job_uri(uri).rstrip('/')}/" for uri in (one, other))
    return first.startswith(second) or second.startswith(first)
