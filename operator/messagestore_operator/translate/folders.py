"""The folders of a resource, and those that no pod can reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.common import Storage
from messagestore_operator.api.replayjob import FilesDestination
from messagestore_operator.api.retentionpolicy import Archive
from messagestore_operator.api.sources import FilesSource
from messagestore_operator.translate.refusal import RefusedField
from messagestore_operator.translate.storage import files_sources

Field: TypeAlias = tuple[str | int, ...]
"""A field, by its path in the manifest."""

TABLE_URI: Field = ("spec", "table", "uri")
LOCAL = "file:///"
_WORDS = f"pods can't reach {LOCAL}…, a folder of one machine; use a folder of an object store: s3a://bucket/folder"


class Folder(NamedTuple):
    """A folder that a resource names.

    `storage` is the field at `storage_path`. If it is absent, a table uses the pod's own identity, and other folders
    use the storage of the stream's table.
    """

    path: Field
    uri: str
    storage_path: Field
    storage: Storage | None


def folders(resource: Resource) -> Iterator[Folder]:
    """All folders that a resource names; all other folders of its runs are below these."""
    if isinstance(resource, MessageStream):
        spec = resource.spec
        yield Folder(TABLE_URI, spec.table.uri, ("spec", "storage"), spec.storage)
        for path, files in files_sources(resource):
            yield _folder(path, files)
            if files.archive_uri is not None:
                yield Folder((*path, "archiveUri"), files.archive_uri, (*path, "storage"), files.storage)
    elif isinstance(resource, RetentionPolicy) and resource.spec.archive is not None:
        yield _folder(("spec", "archive"), resource.spec.archive)
    elif isinstance(resource, ReplayJob) and resource.spec.destination.files is not None:
        yield _folder(("spec", "destination", "files"), resource.spec.destination.files)


def beyond_pods(resource: Resource) -> tuple[RefusedField, ...]:
    """The folders that only a local run can read and write."""
    return tuple(RefusedField(folder.path, _WORDS) for folder in folders(resource) if folder.uri.startswith(LOCAL))


def _folder(path: Field, named: FilesSource | Archive | FilesDestination) -> Folder:
    return Folder((*path, "uri"), named.uri, (*path, "storage"), named.storage)
