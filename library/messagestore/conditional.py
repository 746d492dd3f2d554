"""Object storage with conditional writes, by the client that delta-rs has inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import override

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.storage import S3_ANSWER_SECONDS, S3_CONNECT_SECONDS, Storage

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Store


class ConditionalStorage(Storage):
    """A ``Storage`` that also swaps objects, which pyarrow's client can't."""

    def __init__(self, entries: Sequence[StorageEntry] = (), bundles: Mapping[str, str] | None = None) -> None:
        super().__init__(entries, bundles)
        self._buckets: dict[str, S3Store] = {}

    @override
    def marked(self, uri: str, at_most: int) -> tuple[bytes, str] | None:
        import obstore

        store, path = self._reached(uri)
        with _errors(uri):
            try:
                answer = obstore.get(store, path)
            except FileNotFoundError:
                return None
            size = answer.meta["size"]
            if size > at_most:
                raise TableRefusedError(f"{uri} has {size} bytes, and nobody writes more than {at_most} there")
            return bytes(answer.bytes()), str(answer.meta["e_tag"])

    @override
    def swap(self, uri: str, content: bytes, etag: str | None) -> str | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        store, path = self._reached(uri)
        with _errors(uri):
            try:
                done = obstore.put(store, path, content, mode="create" if etag is None else {"e_tag": etag})
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return None
        return str(done["e_tag"])

    def remove(self, uri: str) -> None:
        """Delete an object if it is there; unlike pyarrow's client, this one writes none for its folder."""
        import obstore

        store, path = self._reached(uri)
        with _errors(uri):
            obstore.delete(store, path)

    def _reached(self, uri: str) -> tuple[S3Store, str]:
        from obstore.store import S3Store

        parts = urlsplit(uri)
        if parts.netloc not in self._buckets:
            options: dict[str, Any] = {**self.delta_options(uri)}
            limits: ClientConfig = {
                "connect_timeout": timedelta(seconds=S3_CONNECT_SECONDS),
                "timeout": timedelta(seconds=S3_ANSWER_SECONDS),
            }
            self._buckets[parts.netloc] = S3Store(parts.netloc, client_options=limits, **options)
        return self._buckets[parts.netloc], uri.partition("://")[2].partition("/")[2]


@contextmanager
def _errors(uri: str) -> Iterator[None]:
    """Raise the client's errors as those of storage."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise RunFailedError("StorageDenied", f"{uri} can't be reached with these rights: {_first(error)}") from error
    except BaseError as error:
        raise OSError(f"{uri}: {_first(error)}") from error


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0][:300]
