"""The folders of a resource: those that no pod can reach, and those that must not overlap with others.

Folders of all resources have one of five roles. Two folders overlap if they are the same, or one is in the other; which
roles don't go together, and why, is said here alone.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple, TypeAlias

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.common import Storage
from messagestore_operator.api.destinations import DeadLetterFolder, FilesDestination
from messagestore_operator.api.retentionpolicy import Archive
from messagestore_operator.api.sources import FilesSource
from messagestore_operator.translate.refusal import RefusedField

Field: TypeAlias = tuple[str | int, ...]
"""A field, by its path in the manifest."""

TABLE_URI: Field = ("spec", "table", "uri")
LOCAL = "file:///"
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_WORDS = f"pods can't reach {LOCAL}…, a folder of one machine; use a folder of an object store: s3a://bucket/folder"


class Role(StrEnum):
    """What a folder is for."""

    TABLE = "Table"
    SOURCE = "Source"
    """Files arrive in it, and are read as records."""
    DONE = "Done"
    """A source's files are moved to it once they are read, under the same names."""
    ARCHIVE = "Archive"
    """Each purge writes what it removes to a folder of its own in it."""
    DESTINATION = "Destination"
    """A replay writes what it sends to it."""


_WRITTEN = (Role.DONE, Role.ARCHIVE, Role.DESTINATION)


class Folder(NamedTuple):
    """A folder that a resource names.

    ``storage`` is the field at ``storage_path``. If it is absent, a table uses the pod's own identity, and other
    folders use the storage of the stream's table. ``removes``: whether files that were read are removed from a source.
    """

    path: Field
    uri: str
    storage_path: Field
    storage: Storage | None
    role: Role
    removes: bool = False

    @property
    def field(self) -> str:
        """Its field, for people."""
        return ".".join(map(str, self.path))


def folders(resource: Resource) -> Iterator[Folder]:
    """All folders that a resource names; all other folders of its runs are below these."""
    if isinstance(resource, MessageStream):
        yield from _of_stream(resource)
    elif isinstance(resource, RetentionPolicy) and resource.spec.archive is not None:
        yield _folder(("spec", "archive"), resource.spec.archive, Role.ARCHIVE)
    elif isinstance(resource, ReplayJob):
        yield from _of_replay(resource)


def _of_stream(stream: MessageStream) -> Iterator[Folder]:
    """The table's folder first."""
    spec = stream.spec
    yield Folder(TABLE_URI, spec.table.uri, ("spec", "storage"), spec.storage, Role.TABLE)
    if spec.source.files is not None:
        yield from _of_source(("spec", "source", "files"), spec.source.files)
    if spec.lifecycle is not None and spec.lifecycle.source.files is not None:
        yield from _of_source(("spec", "lifecycle", "source", "files"), spec.lifecycle.source.files)


def _of_source(path: Field, files: FilesSource) -> Iterator[Folder]:
    yield _folder(path, files, Role.SOURCE, removes=files.after_ingest != "Keep")
    if files.archive_uri is not None:
        yield Folder((*path, "archiveUri"), files.archive_uri, (*path, "storage"), files.storage, Role.DONE)


def _of_replay(job: ReplayJob) -> Iterator[Folder]:
    for path, to in job.spec.places:
        if to.files is not None:
            yield _folder((*path, "files"), to.files, Role.DESTINATION)
        if to.http is not None and (refused := to.http.delivery.dead_letter) is not None:
            yield _folder((*path, "http", "delivery", "deadLetter", "files"), refused.files, Role.ARCHIVE)


def beyond_pods(resource: Resource) -> tuple[RefusedField, ...]:
    """The folders that only a local run can read and write."""
    return tuple(RefusedField(folder.path, _WORDS) for folder in folders(resource) if folder.uri.startswith(LOCAL))


def own_overlaps(resource: Resource) -> Iterator[RefusedField]:
    """The folders of a resource that overlap with another of its own, and must not."""
    for first, later in combinations(folders(resource), 2):
        # A source must be where files arrive, so it is the other folder that can be put elsewhere.
        moved, kept = (first, later) if later.role is Role.SOURCE and first.role in _WRITTEN else (later, first)
        if (why := _conflict(moved, kept, of_one=True)) is not None:
            yield RefusedField(moved.path, _words(_beside(moved, kept), kept, why))


def overlaps(resource: Resource, others: Iterable[Resource]) -> Iterator[RefusedField]:
    """The folders of a resource that overlap with those of others, and must not.

    Two streams that name one table are left out: the folder's marker says which of them may run.
    """
    own = tuple(folders(resource))
    for other in others:
        if other.identity == resource.identity or _share_a_table(resource, other):
            continue
        for kept in folders(other):
            for folder in own:
                if (why := _conflict(folder, kept, of_one=False)) is not None:
                    yield RefusedField(folder.path, _words_about(folder, kept, why, _said(other, resource)))


def segments(uri: str) -> tuple[str, ...]:
    """The store that a URI names, and the names on its path; equal for all spellings of a folder."""
    scheme, _, rest = uri.partition("://")
    authority, *path = rest.split("/")
    scheme = scheme.lower()
    return (f"{'s3a' if scheme == 's3' else scheme}://{authority}", *(name for name in path if name))


def endpoint_key(storage: Storage | None) -> str:
    """The endpoint of an object store in a normal form; empty for the default."""
    if storage is None or storage.endpoint is None:
        return ""
    scheme, _, server = storage.endpoint.lower().rstrip("/").partition("://")
    host, _, port = server.rpartition(":")
    return f"{scheme}://{host if port == _DEFAULT_PORTS[scheme] else server}"


def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two folders, by their segments, are the same, or one is in the other."""
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _conflict(one: Folder, other: Folder, *, of_one: bool) -> str | None:
    """Why two folders must not overlap; None if they don't, or may. ``of_one``: both are of one resource."""
    if _of_different_servers(one, other) or not overlap(segments(one.uri), segments(other.uri)):
        return None
    roles = {one.role, other.role}
    if Role.TABLE in roles:
        return "a table's folder must contain nothing else, and be in no folder that runs read or write"
    if roles == {Role.SOURCE}:
        if of_one:
            return "each file would be read both as messages and as status updates"
        if one.removes or other.removes:
            return "with afterIngest Delete or Archive each loses the files that the other has taken"
        return None
    if Role.SOURCE in roles:
        return "what is written to one would arrive in the other"
    if roles == {Role.DONE}:
        return "files of the same name would replace each other"
    return None


def _beside(moved: Folder, kept: Folder) -> str:
    """What another folder of the same resource is, for people."""
    if kept.role is Role.TABLE:
        return "the table's folder"
    return "uri" if kept.path[:-1] == moved.path[:-1] else kept.field


def _words_about(folder: Folder, kept: Folder, why: str, whose: str) -> str:
    inside = len(segments(folder.uri)) >= len(segments(kept.uri))
    if kept.role is Role.TABLE and inside:
        return f"is in the table folder of {whose}, which must contain nothing else"
    return _words(f"{kept.field} of {whose}", kept, why)


def _words(what: str, kept: Folder, why: str) -> str:
    return f"must not contain {what}, {kept.uri}, or be in it: {why}; use a folder beside it"


def _said(other: Resource, to: Resource) -> str:
    """A resource's name, for the owner of another."""
    kind, namespace, name = other.identity
    return f"{kind} {name}" if namespace == to.metadata.namespace else f"{kind} {namespace}/{name}"


def _of_different_servers(one: Folder, other: Folder) -> bool:
    """Whether both are known to be on different object stores; a folder without storage is where its stream's is."""
    known = one.storage is not None and other.storage is not None
    return known and endpoint_key(one.storage) != endpoint_key(other.storage)


def _share_a_table(one: Resource, other: Resource) -> bool:
    tables = [segments(each.spec.table.uri) for each in (one, other) if isinstance(each, MessageStream)]
    return len(tables) == 2 and tables[0] == tables[1]


def _folder(
    path: Field, named: FilesSource | Archive | FilesDestination | DeadLetterFolder, role: Role, removes: bool = False
) -> Folder:
    return Folder((*path, "uri"), named.uri, (*path, "storage"), named.storage, role, removes)
