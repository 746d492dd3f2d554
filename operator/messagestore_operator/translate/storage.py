"""How a run reaches object storage: an entry for each bucket in its document, and the Secrets of its pods.

The document names environment variables and files, never values. The creator of the pods fills each variable of
``StorageAccess.variables`` from its Secret, in driver and executors alike, and mounts all
``StorageAccess.certificates``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

from messagestore_core.contract import stores as store_contract
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.common import CaSecretRef, Storage
from messagestore_operator.translate.folders import Field, folders
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.secrets import SecretVariable, Use, digest, seal_keys

CA_FOLDER = "/etc/messagestore/ca"
_VARIABLE = "MESSAGESTORE_STORAGE_{number}_{part}"
_LOCAL = "file"
_S3 = ("s3a", "s3")
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


Needs: TypeAlias = tuple[tuple[str, SecretVariable | CertificateMount], ...]
"""What a connection needs of Secrets, each with the field below the connection's that names the Secret."""


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

    path: Field
    uri: str
    storage: Storage | None
    said_by: str


def ingest_access(stream: MessageStream) -> StorageAccess:
    """The access that an ingest of the stream needs."""
    return _with_keys(access(locations(stream, stream)), stream)


def purge_access(policy: RetentionPolicy, stream: MessageStream) -> StorageAccess:
    """The access that a purge of one of the policy's streams needs."""
    sealing = [stream] if policy.spec.action == "Scrub" else []
    return _with_keys(access([_table(stream), *locations(policy, stream)]), *sealing)


def table_access(stream: MessageStream) -> StorageAccess:
    """The access of a run that uses only the stream's store."""
    return access([_table(stream)])


def replay_access(job: ReplayJob, stream: MessageStream, target: MessageStream | None) -> StorageAccess:
    """The access that a replay needs; ``target`` is the destination's stream, if it is one."""
    streams = [stream] if target is None else [stream, target]
    return _with_keys(access([*map(_table, streams), *locations(job, stream)]), *streams)


def locations(resource: Resource, stream: MessageStream) -> list[StorageLocation]:
    """The folders in a resource's own spec; one without storage is where the stream's table is."""
    said_by, default = f"{resource.kind} {resource.metadata.name}", stream.spec.storage
    return [StorageLocation(one.path, one.uri, one.storage or default, said_by) for one in folders(resource)]


def _table(stream: MessageStream) -> StorageLocation:
    """The first of a stream's folders."""
    return locations(stream, stream)[0]


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


def job_uri(uri: str) -> str:
    """A folder's URI for jobs, with Hadoop's scheme for S3."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri


def authority_of(namespace: str, ref: CaSecretRef | None, use: Use) -> CertificateMount | None:
    """The certificate of the authority that verifies a server, which is not an object store."""
    if ref is None:
        return None
    return CertificateMount(ref.name, ref.key, f"{CA_FOLDER}/{use}-{digest(namespace, ref.name, ref.key)}", use)


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
