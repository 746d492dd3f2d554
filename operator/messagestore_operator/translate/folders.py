"""The folders that a resource names, and those of them that no pod reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.translate.refusal import Refusal

Folder: TypeAlias = tuple[tuple[str | int, ...], str]
"""A field, by its path in the manifest, and its URI."""

TABLE_URI = ("spec", "table", "uri")
LOCAL = "file:///"
_WORDS = f"pods have no way to {LOCAL}…, a folder of one machine; name one of an object store: s3a://bucket/folder"


def folders(resource: Resource) -> Iterator[Folder]:
    """Every folder that a resource names."""
    if isinstance(resource, MessageStream):
        yield TABLE_URI, resource.spec.table.uri
        if resource.spec.source.files is not None:
            yield ("spec", "source", "files", "uri"), resource.spec.source.files.uri
        if resource.spec.lifecycle is not None and resource.spec.lifecycle.source.files is not None:
            yield ("spec", "lifecycle", "source", "files", "uri"), resource.spec.lifecycle.source.files.uri
    elif isinstance(resource, RetentionPolicy) and resource.spec.archive is not None:
        yield ("spec", "archive", "uri"), resource.spec.archive.uri
    elif isinstance(resource, ReplayJob) and resource.spec.destination.files is not None:
        yield ("spec", "destination", "files", "uri"), resource.spec.destination.files.uri


def beyond_pods(resource: Resource) -> tuple[Refusal, ...]:
    """The folders that only a local run can read and write."""
    return tuple(Refusal(path, _WORDS) for path, uri in folders(resource) if uri.startswith(LOCAL))
