"""How delta-rs, object_store, pyarrow and Hadoop's file system reach buckets, all by the same entries.

Credentials are read from the environment where they are used. They never become a Spark setting, as Spark logs and
shows its settings.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyarrow import fs

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.errors import RunFailedError

if TYPE_CHECKING:
    from messagestore_core.store.bucket import Bucket

S3_CONNECT_SECONDS = 10
S3_ANSWER_SECONDS = 30
"""How long a server may send nothing; pyarrow's own limit is 3 s, but a copy of a large object answers at its end."""
_ENTRY = "fs.s3a.bucket.{bucket}."
_AUTHORITIES = "SSL_CERT_FILE"
"""The only setting of delta-rs for certificate authorities; it trusts those in the file alone."""


class Storage:
    """Entries by bucket; a bucket without one is reached by the pod's own identity.

    Args:
        bundles: files with all authorities to trust, by the authority's own file: see ``trusting``.
    """

    def __init__(self, entries: Sequence[StorageEntry] = (), bundles: Mapping[str, str] | None = None) -> None:
        self._entries = {entry.bucket: entry for entry in entries}
        self._bundles = bundles or {}
        self._filesystems: dict[str, fs.FileSystem] = {}
        self._buckets: dict[str, Bucket] = {}

    def delta_options(self, uri: str) -> dict[str, str]:
        """The options of delta-rs for a URI. Commits are conditional puts: of two writers the second is refused.

        Raises:
            RunFailedError: credentials are not in the environment.
        """
        entry = self._entry(uri)
        if entry is None:
            return {}
        options = {
            "aws_region": entry.region,
            "aws_virtual_hosted_style_request": "false" if entry.path_style_access else "true",
            "aws_conditional_put": "etag",
        }
        if entry.endpoint is not None:
            options["aws_endpoint_url"] = entry.endpoint if entry.path_style_access else _with_bucket(entry)
            options["aws_allow_http"] = str(entry.endpoint.startswith("http://")).lower()
        key, secret, token = credentials(entry, os.environ)
        given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
        return options | {name: value for name, value in given.items() if value}

    def filesystem(self, uri: str) -> fs.FileSystem:
        """The file system of pyarrow for a URI on object storage: one for each bucket, as each has its own connections.

        Raises:
            RunFailedError: credentials are not in the environment.
        """
        bucket = urlsplit(uri).netloc
        if bucket not in self._filesystems:
            self._filesystems[bucket] = self._filesystem(self._entry(uri))
        return self._filesystems[bucket]

    def _filesystem(self, entry: StorageEntry | None) -> fs.FileSystem:
        if entry is None:
            return fs.S3FileSystem(request_timeout=S3_ANSWER_SECONDS, allow_delayed_open=True)
        key, secret, token = credentials(entry, os.environ)
        endpoint = urlsplit(entry.endpoint) if entry.endpoint else None
        return fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            session_token=token,
            region=entry.region,
            scheme=endpoint.scheme if endpoint else "https",
            endpoint_override=endpoint.netloc if endpoint else None,
            force_virtual_addressing=not entry.path_style_access,
            connect_timeout=S3_CONNECT_SECONDS,
            request_timeout=S3_ANSWER_SECONDS,
            tls_ca_file_path=self._bundles.get(entry.ca_file or ""),
            # A small object is then written by one request, not by three.
            allow_delayed_open=True,
        )

    def bucket(self, uri: str) -> "Bucket":
        """The client for plain objects in the bucket of a URI.

        Raises:
            RunFailedError: credentials are not in the environment.
        """
        # A command that reads a local store is done before the client is loaded.
        from messagestore_core.store.bucket import Bucket

        name = urlsplit(uri).netloc
        if name not in self._buckets:
            self._buckets[name] = Bucket(name, self.delta_options(uri))
        return self._buckets[name]

    def versions_kept(self, uri: str) -> str | None:
        """Whether a bucket keeps earlier versions of objects: Enabled, Suspended or empty; None: unknown."""
        return None

    def hadoop_settings(self) -> dict[str, str]:
        """The settings of Hadoop's S3A: names of variables and files, no secret."""
        return {name: value for entry in self._entries.values() for name, value in _hadoop(entry).items()}

    def _entry(self, uri: str) -> StorageEntry | None:
        return self._entries.get(urlsplit(uri).netloc)


@contextmanager
def reaching(entries: Sequence[StorageEntry]) -> Iterator[Storage]:
    """Reach buckets by these entries, without Spark, while the block lasts.

    Raises:
        RunFailedError: a certificate authority can't be read.
    """
    with trusting(entries) as bundles:
        yield Storage(entries, bundles)


def credentials(entry: StorageEntry, environment: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    """Access key, secret key and session token; all None where the pod's own identity is used.

    Raises:
        RunFailedError: a variable that must be there is missing or empty.
    """
    names = entry.environment
    if names is None:
        return None, None, None
    for name in (names.access_key, names.secret_key):
        if not environment.get(name):
            raise RunFailedError(
                "StorageDenied",
                f"there are no credentials for bucket {entry.bucket}: environment variable {name} is not set; "
                "check the keys of the Secret that credentialsSecretRef names",
            )
    token = environment.get(names.session_token) if names.session_token else None
    return environment[names.access_key], environment[names.secret_key], token or None


@contextmanager
def trusting(entries: Sequence[StorageEntry]) -> Iterator[Mapping[str, str]]:
    """Trust the authorities of entries beside the usual ones; yields, by each one's file, a file with it and these.

    The latter is for pyarrow, connection by connection. In this process all else that reads SSL_CERT_FILE, delta-rs
    among it, trusts all of them. Blocks may end in any order: the newest that lasts counts, and after the last one what
    counted before the first.

    Raises:
        RunFailedError: a file can't be read.
    """
    files = dict.fromkeys(entry.ca_file for entry in entries if entry.ca_file)
    if not files:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="messagestore-") as folder:
        bundle = Path(folder) / "trusted.pem"
        certificates = {file: _certificates_in(file) for file in files}
        usual = _TRUSTED.add(bundle, [*certificates.values()])
        own = {file: bundle.with_name(f"{number}.pem") for number, file in enumerate(certificates)}
        try:
            for file, path in own.items():
                path.write_text(f"{usual}\n{certificates[file]}")
            yield {file: str(path) for file, path in own.items()}
        finally:
            _TRUSTED.remove(bundle)


class _Trusted:
    """The bundles that are in force in this process, the newest last."""

    def __init__(self) -> None:
        self._changes = Lock()
        self._bundles: list[Path] = []
        self._usual: str | None = None

    def add(self, bundle: Path, certificates: Sequence[str]) -> str:
        """Trust these beside all that is trusted now, in a new file; returns what was trusted before the first."""
        with self._changes:
            now = os.environ.get(_AUTHORITIES)
            if not self._bundles:
                self._usual = now
            bundle.write_text("\n".join([_well_known(now), *certificates]))
            self._bundles.append(bundle)
            os.environ[_AUTHORITIES] = str(bundle)
            return _well_known(self._usual)

    def remove(self, bundle: Path) -> None:
        """Trust what the newest of the other bundles has; without one, what was trusted before the first."""
        with self._changes:
            self._bundles.remove(bundle)
            newest = str(self._bundles[-1]) if self._bundles else self._usual
            if newest is None:
                os.environ.pop(_AUTHORITIES, None)
            else:
                os.environ[_AUTHORITIES] = newest


_TRUSTED = _Trusted()


def _with_bucket(entry: StorageEntry) -> str:
    """The endpoint with the bucket in its host name, as delta-rs does not add it."""
    parts = urlsplit(entry.endpoint or "")
    return f"{parts.scheme}://{entry.bucket}.{parts.netloc}"


def _hadoop(entry: StorageEntry) -> dict[str, str]:
    names = entry.environment
    settings = {
        "endpoint": entry.endpoint,
        "endpoint.region": entry.region,
        "path.style.access": str(entry.path_style_access).lower(),
        "connection.ssl.enabled": str(not (entry.endpoint or "").startswith("http://")).lower(),
        "messagestore.access.key.variable": names.access_key if names else None,
        "messagestore.secret.key.variable": names.secret_key if names else None,
        "messagestore.session.token.variable": names.session_token if names else None,
        "messagestore.ca.file": entry.ca_file,
    }
    prefix = _ENTRY.format(bucket=entry.bucket)
    return {f"{prefix}{name}": value for name, value in settings.items() if value is not None}


def _well_known(chosen: str | None) -> str:
    file = chosen or ssl.get_default_verify_paths().cafile
    return Path(file).read_text() if file and Path(file).is_file() else ""


def _certificates_in(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RunFailedError(
            "StorageUnreachable", f"the certificate authority {file} can't be read; check the Secret of caSecretRef"
        ) from error
