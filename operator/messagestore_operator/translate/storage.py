"""How a run reaches object storage: an entry for each bucket in its document, and the Secrets of its pods.

The document names environment variables and files, never values. The creator of the pods fills each variable of
``StorageAccess.variables`` from its Secret, in driver and executors alike, and mounts all
``StorageAccess.certificates``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlsplit

from messagestore_core.contract import stores as store_contract
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.api.common import CaSecretRef, Storage
from messagestore_operator.api.destinations import DeadLetterFolder, FilesDestination
from messagestore_operator.api.replayjob import Path
from messagestore_operator.api.sources import FilesSource
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.secrets import SecretVariable, Use, seal_keys

CA_FOLDER = "/etc/messagestore/ca"
_VARIABLE = "MESSAGESTORE_STORAGE_{number}_{part}"
_LOCAL = "file"
_S3 = ("s3a", "s3")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_T = TypeVar("_T")


@dataclass(frozen=True)
class CertificateMount:
    """One key of a Secret, which is mounted as the file ``folder``/``key``."""

    secret: str
    key: str
    folder: str
    use: Use
    """The use of the server that it verifies; a Secret allows the mount by that use, or by ``ca``."""
    confidential: bool = False
    """Whether it is a client's own certificate or key; then ``ca`` doesn't allow it."""

    @property
    def path(self) -> str:
        """The file."""
        return f"{self.folder}/{self.key}"


@dataclass(frozen=True)
class StorageAccess:
    """The access of one run to its buckets; all Secrets are in the resource's namespace."""

    entries: tuple[store_contract.StorageEntry, ...] = ()
    variables: tuple[SecretVariable, ...] = ()
    certificates: tuple[CertificateMount, ...] = ()


@dataclass(frozen=True)
class StorageLocation:
    """A folder that a run reads or writes: its field, its URI, its storage, and its resource.

    Refusals name the field ``path``; ``said_by`` names the resource for people, such as "MessageStream orders".
    """

    path: tuple[str | int, ...]
    uri: str
    storage: Storage | None
    said_by: str


def ingest_access(stream: MessageStream) -> StorageAccess:
    """The access that an ingest of the stream needs."""
    return _with_keys(access(stream_locations(stream)), stream)


def purge_access(policy: RetentionPolicy, stream: MessageStream) -> StorageAccess:
    """The access that a purge of one of the policy's streams needs."""
    locations = [_table(stream)]
    if (archive := policy.spec.archive) is not None:
        path = ("spec", "archive", "uri")
        locations.append(StorageLocation(path, archive.uri, archive.storage or stream.spec.storage, _name(policy)))
    return _with_keys(access(locations), *([stream] if policy.spec.action == "Scrub" else []))


def table_access(stream: MessageStream) -> StorageAccess:
    """The access of a run that uses only the stream's store."""
    return access([_table(stream)])


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """The access that a replay needs; ``target`` is the destination's stream, if it is one."""
    locations = [_table(stream)]
    if target is not None:
        locations.append(_table(target))
    for path, folder in written_folders(job):
        storage = folder.storage or stream.spec.storage
        locations.append(StorageLocation((*path, "uri"), folder.uri, storage, _name(job)))
    return _with_keys(access(locations), stream, *([target] if target is not None else []))


def written_folders(job: ReplayJob) -> Iterator[tuple[Path, FilesDestination | DeadLetterFolder]]:
    """The folders of files that a replay writes to, and of messages that an endpoint refuses, each with its field."""
    for path, to in job.spec.places:
        if to.files is not None:
            yield (*path, "files"), to.files
        if to.http is not None and to.http.delivery.dead_letter is not None:
            yield (*path, "http", "delivery", "deadLetter", "files"), to.http.delivery.dead_letter.files


def stream_locations(stream: MessageStream) -> list[StorageLocation]:
    """The folders in a stream's own spec."""
    return [
        _table(stream),
        *(location for path, files in files_sources(stream) for location in _of(stream, path, files)),
    ]


def files_sources(stream: MessageStream) -> Iterator[tuple[tuple[str | int, ...], FilesSource]]:
    """The folders that a stream reads files from, each with its field."""
    spec = stream.spec
    if spec.source.files is not None:
        yield ("spec", "source", "files"), spec.source.files
    if spec.lifecycle is not None and spec.lifecycle.source.files is not None:
        yield ("spec", "lifecycle", "source", "files"), spec.lifecycle.source.files


def _of(stream: MessageStream, path: tuple[str | int, ...], files: FilesSource) -> Iterator[StorageLocation]:
    storage = files.storage or stream.spec.storage
    yield StorageLocation((*path, "uri"), files.uri, storage, _name(stream))
    if files.archive_uri is not None:
        yield StorageLocation((*path, "archiveUri"), files.archive_uri, storage, _name(stream))


def _with_keys(access: StorageAccess, *sealing: MessageStream) -> StorageAccess:
    """Each key once, as two streams may have the same."""
    return replace(access, variables=(*access.variables, *dict.fromkeys(seal_keys(*sealing))))


def access(locations: Sequence[StorageLocation]) -> StorageAccess:
    """The access to all of the locations."""
    if refused := tuple(refused_locations(locations)):
        raise NotSupportedError(refused)
    storages: dict[str, Storage] = {}
    for location in locations:
        bucket = bucket_of(location.uri)
        if bucket is not None and location.storage is not None:
            storages[bucket] = location.storage
    credentials = (storage.credentials_secret_ref for storage in storages.values())
    secrets = _numbered(credential.name for credential in credentials if credential)
    authorities = _numbered(storage.ca_secret_ref for storage in storages.values() if storage.ca_secret_ref)
    mounts = {
        ref: CertificateMount(ref.name, ref.key, f"{CA_FOLDER}/{number}", Use.STORAGE)
        for ref, number in authorities.items()
    }
    return StorageAccess(
        entries=tuple(_entry(bucket, storage, secrets, mounts) for bucket, storage in storages.items()),
        variables=tuple(variable for secret, number in secrets.items() for variable in _variables(secret, number)),
        certificates=tuple(mounts.values()),
    )


def refused_locations(locations: Sequence[StorageLocation]) -> Iterator[RefusedField]:
    """Why one run can't reach all locations."""
    first: dict[str, StorageLocation] = {}
    for location in locations:
        if (words := out_of_reach(location.uri)) is not None:
            yield RefusedField(location.path, words)
        elif (bucket := bucket_of(location.uri)) is not None:
            other = first.setdefault(bucket, location)
            if other.storage != location.storage:
                yield RefusedField(
                    location.path,
                    f"bucket {bucket} would be reached in two ways: {_said(location)} and {_said(other)} give it "
                    "different storage; one run can reach a bucket in one way only",
                )


def out_of_reach(uri: str) -> str | None:
    """Why no run anywhere can reach a folder; None if one can."""
    if urlsplit(uri).scheme in (*_S3, _LOCAL):
        return None
    return "this release reaches object stores by the S3 protocol only: s3a:// or s3://"


def bucket_of(uri: str) -> str | None:
    """The bucket of a URI on object storage; None for a local one."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in _S3 else None


def endpoint_key(storage: Storage | None) -> str:
    """The endpoint of an object store in a normal form; empty for the default."""
    if storage is None or storage.endpoint is None:
        return ""
    scheme, _, server = storage.endpoint.lower().rstrip("/").partition("://")
    host, _, port = server.rpartition(":")
    return f"{scheme}://{host if port == _DEFAULT_PORTS[scheme] else server}"


def job_uri(uri: str) -> str:
    """A folder's URI for jobs, with Hadoop's scheme for S3."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri


def _table(stream: MessageStream) -> StorageLocation:
    return StorageLocation(("spec", "table", "uri"), stream.spec.table.uri, stream.spec.storage, _name(stream))


def _name(resource: MessageStream | RetentionPolicy | ReplayJob) -> str:
    return f"{resource.kind} {resource.metadata.name}"


def _said(location: StorageLocation) -> str:
    return f"{'.'.join(map(str, location.path))} of {location.said_by}"


def _numbered(values: Iterable[_T]) -> dict[_T, int]:
    return {value: number for number, value in enumerate(dict.fromkeys(values), start=1)}


def _entry(
    bucket: str, storage: Storage, secrets: dict[str, int], mounts: dict[CaSecretRef, CertificateMount]
) -> store_contract.StorageEntry:
    credentials, authority = storage.credentials_secret_ref, storage.ca_secret_ref
    return store_contract.StorageEntry(
        bucket=bucket,
        endpoint=storage.endpoint.rstrip("/") if storage.endpoint else None,
        region=storage.region,
        path_style_access=storage.path_style_access,
        environment=_environment(secrets[credentials.name]) if credentials else None,
        ca_file=mounts[authority].path if authority else None,
    )


def _environment(number: int) -> store_contract.CredentialVariables:
    return store_contract.CredentialVariables(
        access_key=_VARIABLE.format(number=number, part="ACCESS_KEY"),
        secret_key=_VARIABLE.format(number=number, part="SECRET_KEY"),
        session_token=_VARIABLE.format(number=number, part="SESSION_TOKEN"),
    )


def _variables(secret: str, number: int) -> Iterator[SecretVariable]:
    names = _environment(number)
    yield SecretVariable(names.access_key, secret, "accessKey", Use.STORAGE)
    yield SecretVariable(names.secret_key, secret, "secretKey", Use.STORAGE)
    assert names.session_token is not None
    yield SecretVariable(names.session_token, secret, "sessionToken", Use.STORAGE, optional=True)
