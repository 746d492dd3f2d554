"""The location of a store or landing folder, and how it is reached."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from messagestore.errors import MessageStoreError, StorageError, StoreNotFoundError, StoreUnreadableError
from messagestore_core.contract.stores import CredentialVariables, StorageEntry
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.folder import read_marker
from messagestore_core.store.foreign import not_to_be_read
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LOG, TOMBSTONE_KEY
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects, is_local, local_path
from messagestore_core.store.storage import Storage, trusting
from messagestore_core.store.together import named_by, problems, read_tables

_SCHEMES = ("s3", "s3a")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WITH_BUCKET = re.compile(r"s3a?://[A-Za-z0-9][A-Za-z0-9._-]*(/|$)")


class Location:
    """One store or landing folder. Close it after use if an entry names a certificate authority.

    Args:
        uri: ``file:///…``, a path, or ``s3a://…``.
        storage: how buckets are reached; absent: by environment variables, see ``entries_of``.
    """

    def __init__(self, given: str | os.PathLike[str], storage: Sequence[StorageEntry] | None = None) -> None:
        uri = os.fspath(given)
        if uri.encode(errors="replace").decode() != uri:
            raise MessageStoreError(f"{uri!r} is no text in UTF-8")
        named = _SCHEME.match(uri)
        scheme = named[1].lower() if named else ""
        if scheme in _SCHEMES and not _WITH_BUCKET.match(uri):
            raise MessageStoreError("a folder on object storage is s3a://bucket/folder, without credentials in it")
        if scheme not in ("", "file", *_SCHEMES):
            raise MessageStoreError(f"{uri} is neither a local folder (file:///…) nor on object storage (s3a://…)")
        self.uri = (uri if scheme or uri.startswith("/") else os.path.normpath(Path(uri).absolute())).rstrip("/")
        entries = entries_of(uri, os.environ) if storage is None else storage
        self._held = ExitStack()
        with refusals(uri):
            bundles = self._held.enter_context(trusting(entries))
        self.storage = Storage(entries, bundles)
        self.store = Store(self.uri, self.storage)

    def close(self) -> None:
        """Stop trusting the entries' certificate authorities."""
        self._held.close()

    def objects(self, *names: str) -> Objects:
        """The objects below it, or below a folder in it."""
        with refusals(self.uri):
            return self.store.objects(*names)

    def tombstone_key(self) -> bytes | None:
        """The key of the hashes of ids that were erased or purged; None while there are none."""
        with refusals(self.uri):
            return self.store.objects().read(TOMBSTONE_KEY, LARGEST_DOCUMENT)

    def open_table(self, name: str, version: int | None = None) -> DeltaTable:
        """One table of the store.

        Raises:
            StoreNotFoundError: there is no such table.
            StoreUnreadableError: its rows would come from other files than its own.
            StorageError: storage refuses.
        """
        with refusals(self.uri):
            try:
                table = self.store.read(name, version)
            except TableNotFoundError as error:
                _list_if_local(self.store.path(name, LOG))
                raise StoreNotFoundError(f"{self.uri} is no message store: there is no table {name} in it") from error
            self.check(table)
            return table

    def wrong_tables(self) -> list[str]:
        """Why the tables do not belong together, for people."""
        with refusals(self.uri):
            try:
                tables = read_tables(self.store, read_marker(self.store).format_version)
            except TableRefusedError as error:
                return [str(error)]
            return [problem.words for problem in problems(self.store, tables, named_by(tables))]

    def check(self, table: DeltaTable) -> None:
        """Raise StoreUnreadableError, before it is read, for a table with other files than its own."""
        what = not_to_be_read(table)
        if what is not None:
            raise StoreUnreadableError(f"{table.table_uri} can't be read at version {table.version()}: {what}")


def _list_if_local(uri: str) -> None:
    """Raise PermissionError for a local folder that may not be listed: delta-rs takes it for absent."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if is_local(uri):
            list(Path(local_path(uri)).iterdir())


def entries_of(uri: str, environment: Mapping[str, str]) -> list[StorageEntry]:
    """The entry for a URI's bucket, from the variables that AWS' own tools use; empty for a local URI.

    AWS_ENDPOINT_URL, AWS_REGION (or AWS_DEFAULT_REGION), AWS_CA_BUNDLE, and AWS_ACCESS_KEY_ID with
    AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; without keys, the identity of the pod or machine.
    """
    if urlsplit(uri).scheme not in _SCHEMES:
        return []
    keys = CredentialVariables(
        access_key="AWS_ACCESS_KEY_ID", secret_key="AWS_SECRET_ACCESS_KEY", session_token="AWS_SESSION_TOKEN"
    )
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    entry = StorageEntry(
        bucket=urlsplit(uri).netloc,
        endpoint=endpoint,
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
        path_style_access=endpoint is not None,
        environment=keys if environment.get("AWS_ACCESS_KEY_ID") else None,
        ca_file=environment.get("AWS_CA_BUNDLE"),
    )
    return [entry]


@contextmanager
def refusals(uri: str, done: str = "read") -> Iterator[None]:
    """Raise errors of storage and of Delta's and Arrow's libraries as StorageError."""
    try:
        yield
    except MessageStoreError:
        raise
    except RunFailedError as error:
        raise StorageError(str(error)) from error
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise StorageError(f"{uri} can't be {done}: {_last_line(error)}") from error


def _last_line(error: BaseException) -> str:
    said = str(error)
    if isinstance(error, OSError) and error.strerror:
        said = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
