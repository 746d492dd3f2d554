"""Objects in a bucket by object_store, the client that delta-rs has inside: one request each, also with a condition."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from messagestore_core.store.objects import Content
from messagestore_core.store.storage import S3_ANSWER_SECONDS, S3_CONNECT_SECONDS

if TYPE_CHECKING:
    from obstore import ObjectMeta

_LONGEST = timedelta(hours=1)
_ANSWER = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<]*)</Message>")
_NO_BUCKET = "NoSuchBucket"
_SHOWN = 500


class Bucket:
    """One bucket; a key has no slash in front.

    Each function raises an OSError if the bucket can't be reached, and a PermissionError if it refuses.

    Args:
        options: how it is reached, see ``Storage.delta_options``.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self._name = name
        given: dict[str, Any] = {**options}
        connect, answer = timedelta(seconds=S3_CONNECT_SECONDS), timedelta(seconds=S3_ANSWER_SECONDS)
        limits: Any = {"connect_timeout": connect, "read_timeout": answer, "timeout": _LONGEST}
        self._store = S3Store(name, client_options=limits, **given)

    def open(self, key: str, piece: int) -> Content | None:
        """An object, in pieces of at least so many bytes but the last; None where there is no object."""
        with self._errors(key):
            try:
                answer = obstore.get(self._store, key)
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
                return None
            meta = answer.meta
            return Content(meta["size"], str(meta["e_tag"]), _mark(meta), self._pieces(key, answer.stream(piece)))

    def _pieces(self, key: str, stream: Iterator[bytes]) -> Iterator[bytes]:
        with self._errors(key):
            yield from map(bytes, stream)

    def mark(self, key: str) -> bytes | None:
        """What changes with an object; None where there is no object, or no bucket."""
        with self._errors(key):
            try:
                return _mark(obstore.head(self._store, key))
            except FileNotFoundError:
                return None

    def names(self, folder: str, after: str) -> list[str]:
        """The keys below a folder that come after another key, in order."""
        with self._errors(folder):
            return [one["path"] for some in obstore.list(self._store, folder, offset=after) for one in some]

    def write(self, key: str, content: bytes) -> None:
        """Write an object."""
        with self._errors(key):
            obstore.put(self._store, key, content)

    def swap(self, key: str, content: bytes, etag: str | None) -> str | None:
        """Write an object if it still is the one with this ETag, or is absent if that is None.

        Returns:
            The new ETag; None: it was another one, and was not written.
        """
        mode: Any = "create" if etag is None else {"e_tag": etag}
        with self._errors(key):
            try:
                return str(obstore.put(self._store, key, content, mode=mode)["e_tag"])
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return self._etag_if_same(key, content)
            except BaseError:
                # The answer may have been lost.
                written = self._etag_if_same(key, content)
                if written is None:
                    raise
                return written

    def _etag_if_same(self, key: str, content: bytes) -> str | None:
        """The ETag of an object with this content; no two writers have the same content."""
        now = self.open(key, len(content) + 1)
        return now.etag if now is not None and now.size == len(content) and b"".join(now.pieces) == content else None

    def delete(self, key: str) -> None:
        """Delete an object if it exists; unlike pyarrow's client, this one writes none for its folder."""
        with self._errors(key):
            obstore.delete(self._store, key)

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise OSError(f"{self._at(key)}: {_said(error)}") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(f"{self._at(key)} can't be reached with these rights: {_said(error)}") from None
        except BaseError as error:
            raise OSError(f"{self._at(key)}: {_said(error)}") from None

    def _at(self, key: str) -> str:
        return f"s3a://{self._name}/{key}"


def _mark(meta: "ObjectMeta") -> bytes:
    return f"{meta['e_tag']} {meta['size']} {meta['last_modified'].isoformat()}".encode()


def _said(error: BaseException) -> str:
    """The first line of an error, and what the server answered, which stands in it as XML."""
    text = str(error)
    answer = _ANSWER.search(text)
    first = text.splitlines()[0].partition("<?xml")[0].strip()[:_SHOWN]
    return f"{first} {answer[1]}: {answer[2]}" if answer else first
