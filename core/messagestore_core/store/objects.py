"""Plain objects beside the tables: markers, manifests, claim checks, and documents, which are checked when read."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs
from pydantic import BaseModel, ValidationError

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.layout import PARTIAL
from messagestore_core.store.storage import Storage

if TYPE_CHECKING:
    from messagestore_core.store.bucket import Bucket

LOCAL = "file://"
LARGEST_DOCUMENT = 256 << 20
"""Bytes. A frozen selection has up to 65,536 keys; other documents are far smaller."""
_MARKED_BYTES, _PIECE = 1 << 16, 1 << 20
_AT_ONCE = {"max_retries": "4", "retry_timeout": "20s", "connect_timeout": "5s"}
_Document = TypeVar("_Document", bound=BaseModel)


def is_local(uri: str) -> bool:
    """Whether a URI is a folder or file of this machine."""
    return uri.startswith(("file:", "/"))


def local_path(uri: str) -> str:
    """The path of a local URI. Nothing is percent-decoded, as Hadoop doesn't either."""
    if uri.startswith(LOCAL):
        return uri.removeprefix(LOCAL)
    return uri.removeprefix("file:")


def beginning(uri: str) -> str:
    """What the URI of each file below a folder begins with, as files are listed."""
    return f"{(LOCAL + local_path(uri) if is_local(uri) else uri).rstrip('/')}/"


def delta_uri(uri: str) -> str:
    """The URI for delta-rs, with % encoded, as delta-rs decodes URIs of object storage."""
    return local_path(uri) if is_local(uri) else uri.replace("s3a://", "s3://", 1).replace("%", "%25")


def join(uri: str, *names: str) -> str:
    """``uri`` with names below it."""
    return "/".join([uri.rstrip("/"), *names])


def is_below(uri: str, other: str) -> bool:
    """Whether ``other`` is ``uri`` or lies below it, whichever spelling of local folders and S3 they use."""
    own, path = _spelled(uri), _spelled(other)
    return ".." not in path.split("/") and (path == own or path.startswith(f"{own}/"))


def sum_of(name: str) -> str:
    """The name of the object that a checksum file of Hadoop belongs to; any other name as it is."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{base[1:-4]}" if base.startswith(".") and base.endswith(".crc") else name


def first_link(uri: str) -> str | None:
    """The first path below a local folder that is neither file nor folder, such as a link; None without any."""
    folders = [local_path(uri)] if is_local(uri) else []
    while folders:
        with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    return entry.path
    return None


def reached(uri: str, storage: Storage) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it without a slash at its end."""
    filesystem = fs.LocalFileSystem() if is_local(uri) else storage.filesystem(uri)
    return filesystem, path_of(uri)


def check_reachable(uris: Iterable[str], storage: Storage) -> None:
    """List each of the folders that are on object storage, without the long retries of a job.

    pyarrow lists a missing bucket as an empty one, so that a job would find nothing to do.

    Raises:
        OSError: a bucket is missing, refuses, or can't be reached.
    """
    for uri in uris:
        if not is_local(uri):
            DeltaTable.is_deltatable(delta_uri(uri), storage.delta_options(uri) | _AT_ONCE)


def path_of(uri: str) -> str:
    """The path of a URI in its file system, without a slash at its end."""
    return (local_path(uri) if is_local(uri) else uri.partition("://")[2]).rstrip("/")


class Content(NamedTuple):
    """An object that is read in pieces: its size in bytes; for a local file ETag and mark are empty."""

    size: int
    etag: str
    mark: bytes
    """What changes with the object."""
    pieces: Iterator[bytes]


class Objects:
    """The objects under one URI; paths are relative to it."""

    def __init__(self, uri: str, storage: Storage) -> None:
        self.uri = uri
        self._storage, self._root, self._local = storage, path_of(uri), is_local(uri)

    @cached_property
    def _fs(self) -> fs.FileSystem:
        return reached(self.uri, self._storage)[0]

    @cached_property
    def _bucket(self) -> "Bucket":
        return self._storage.bucket(self.uri)

    def _key(self, name: str) -> str:
        return self._path(name).partition("/")[2]

    def below(self, *names: str) -> "Objects":
        """The objects below a folder."""
        return Objects(join(self.uri, *names), self._storage)

    def _make_parent(self, path: str) -> None:
        """Make the folder of a local path; object storage needs none."""
        if self._local:
            self._fs.create_dir(str(PurePosixPath(path).parent), recursive=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def read(self, name: str, at_most: int | None = None) -> bytes | None:
        """The object's bytes; None where there is no object.

        Raises:
            TableRefusedError: it has more than ``at_most`` bytes.
        """
        content = self._opened(name)
        return None if content is None else self._whole(name, content, at_most)

    def _opened(self, name: str, piece: int = _PIECE) -> Content | None:
        """An object, in pieces of at least so many bytes but the last; None where there is none. It is one request."""
        return _local_content(self._path(name), piece) if self._local else self._bucket.open(self._key(name), piece)

    def _whole(self, name: str, content: Content, at_most: int | None) -> bytes:
        if at_most is not None and content.size > at_most:
            raise TableRefusedError(
                f"{join(self.uri, name)} has {content.size} bytes, and no run writes more than {at_most} there; "
                "find out who wrote it, and remove or restore it"
            )
        return b"".join(content.pieces)

    def pieces(self, name: str, size: int) -> Iterator[bytes] | None:
        """The object's bytes, in pieces of at least ``size`` but the last; None where there is no object."""
        content = self._opened(name, size)
        return None if content is None else content.pieces

    def locate(self, name: str) -> tuple[fs.FileSystem, str]:
        """The file system and the path by which pyarrow reaches an object."""
        return self._fs, self._path(name)

    def file(self, name: str, size: int = 0) -> pa.NativeFile:
        """An object as a file to read from, by one request if it is small.

        Args:
            size: about how many bytes it has, where that is known.

        Raises:
            FileNotFoundError: there is no such object.
        """
        if not self._local and size <= _PIECE:
            content = self._opened(name)
            if content is None:
                raise FileNotFoundError(join(self.uri, name))
            if content.size <= _PIECE:
                return pa.BufferReader(b"".join(content.pieces))
        return self._fs.open_input_file(self._path(name))

    def local_path(self, name: str) -> str | None:
        """The path of a local object; None on object storage."""
        return self._path(name) if self._local else None

    def read_first(self, name: str, length: int) -> bytes | None:
        """At most the first ``length`` bytes of an object; None where there is no object."""
        # Not in one piece: a caller may be told any length, and a reader allocates what it asks for.
        pieces = self.pieces(name, min(max(1, length), _PIECE))
        if pieces is None:
            return None
        first = b""
        while len(first) < length and (piece := next(pieces, b"")):
            first += piece
        return first[: max(0, length)]

    def mark(self, name: str) -> bytes | None:
        """What changes with an object, by one request; None where there is no object."""
        return self.read_first(name, _MARKED_BYTES) if self._local else self._bucket.mark(self._key(name))

    def read_and_mark(self, name: str, at_most: int) -> tuple[bytes, bytes] | None:
        """An object's bytes and its ``mark``, by one request, on object storage only; None where there is no object.

        Raises:
            TableRefusedError: it has more than ``at_most`` bytes.
        """
        content = self._opened(name)
        return None if content is None else (self._whole(name, content, at_most), content.mark)

    def exists(self, name: str) -> bool:
        """Whether the object exists."""
        if self._local:
            return bool(self._fs.get_file_info(self._path(name)).type == fs.FileType.File)
        return self._bucket.mark(self._key(name)) is not None

    def write(self, name: str, content: bytes) -> None:
        """Write an object whole: a reader sees all of it or none."""
        if not self._local:
            self._bucket.write(self._key(name), content)
            return
        with self.writing(name) as stream:
            stream.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[pa.NativeFile]:
        """Write an object piece by piece; readers of a local file see all of it or none."""
        path = self._path(name)
        self._make_parent(path)
        target = f"{path}{PARTIAL}" if self._local else path
        with self._fs.open_output_stream(target, compression=None) as stream:
            yield stream
        if self._local:
            self._fs.move(target, path)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object if it is absent, as ``swap`` does, and return whether it was."""
        return self.swap(name, content, None) is not None

    def marked(self, name: str, at_most: int) -> tuple[bytes, str] | None:
        """An object's bytes and its ``etag`` for ``swap``; None where there is no object.

        Raises:
            TableRefusedError: it has more than ``at_most`` bytes.
        """
        opened = self._opened(name)
        if opened is None:
            return None
        content = self._whole(name, opened, at_most)
        return content, opened.etag or hashlib.sha256(content).hexdigest()

    def swap(self, name: str, content: bytes, etag: str | None) -> str | None:
        """Write an object if it still is the one with this ``etag``, or is absent if that is None.

        On object storage the put is conditional; for a local folder the caller holds a lock.

        Returns:
            The new ``etag``; None: it was another one, and was not written.
        """
        if not self._local:
            return self._bucket.swap(self._key(name), content, etag)
        now = self.marked(name, LARGEST_DOCUMENT)
        if (None if now is None else now[1]) != etag:
            return None
        self.write(name, content)
        return hashlib.sha256(content).hexdigest()

    def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        if not self._local:
            self._bucket.delete(self._key(name))
        elif self.exists(name):
            # Another process may delete it, too.
            with suppress(FileNotFoundError):
                self._fs.delete_file(self._path(name))

    def delete_last(self, name: str) -> None:
        """Delete an object; on object storage the folder goes with it if it has nothing else.

        Clients that delete objects leave an empty one with the folder's name. Whoever writes to the folder only once
        the object is gone loses nothing.
        """
        if self._local or self.names() != [name]:
            self.delete(name)
            return
        try:
            self._fs.delete_dir(self._root)
        except OSError:
            # Some stores don't delete a folder's own object with its content. Another try might meet a new content.
            if self.exists(name):
                raise

    def delete_folder(self, name: str) -> None:
        """Delete everything below a name if it exists."""
        left = None
        while self._fs.get_file_info(self._path(name)).type == fs.FileType.Directory:
            try:
                self._fs.delete_dir(self._path(name))
                return
            except FileNotFoundError:
                # A store that keeps versions may still tell the name of a folder whose objects are deleted.
                return
            except OSError:
                # Some stores don't delete a folder's own object with its content: try again while less is left.
                before, left = left, len(self.names(name, recursive=True))
                if left == before:
                    raise

    def names(self, below: str = "", *, recursive: bool = False) -> list[str]:
        """Sorted names of files and folders below a name; relative to the URI, folders end with a slash."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True, recursive=recursive)
        prefix = len(self._root) + 1
        return sorted(
            info.path[prefix:] + ("/" if info.type == fs.FileType.Directory else "")
            for info in self._fs.get_file_info(selector)
        )

    def names_after(self, name: str) -> list[str]:
        """Sorted names of the objects below the URI that come after a name; on object storage only."""
        names = self._bucket.names(self._key(""), self._key(name))
        return [one.removeprefix(f"{self._key('')}/") for one in names]


def _local_content(path: str, piece: int) -> Content | None:
    if not Path(path).is_file():
        return None
    try:
        file = pa.OSFile(path)
    except FileNotFoundError:
        return None

    def pieces() -> Iterator[bytes]:
        with file:
            yield from iter(partial(file.read, piece), b"")

    return Content(file.size(), "", b"", pieces())


def read_document(objects: Objects, name: str, model: type[_Document]) -> _Document | None:
    """Read a document; None where there is no object.

    Raises:
        TableRefusedError: the object is no such document.
    """
    content = objects.read(name, LARGEST_DOCUMENT)
    return None if content is None else parsed_document(model, content, join(objects.uri, name))


def write_document(objects: Objects, name: str, document: BaseModel) -> None:
    """Write a document whole, with the names of its fields on disk; the caller names the write."""
    objects.write(name, document.model_dump_json(by_alias=True).encode())


def documents_in(objects: Objects, folder: str, name: str, model: type[_Document]) -> Iterator[tuple[str, _Document]]:
    """The documents of a name in the folders below a folder: the name of each, ending with a slash, and its document.

    Raises:
        TableRefusedError: one is no such document.
    """
    for below in objects.names(folder):
        document = read_document(objects, f"{below}{name}", model) if below.endswith("/") else None
        if document is not None:
            yield below, document


def parsed_document(model: type[_Document], content: bytes, uri: str) -> _Document:
    """Parse a document that was read at a place.

    Raises:
        TableRefusedError: the content is no such document.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise TableRefusedError(
            f"{uri} is not what a run writes there ({problem[:200]}); find out who wrote it, and remove or restore it"
        ) from None


def _spelled(uri: str) -> str:
    if is_local(uri):
        return f"/{local_path(uri).strip('/')}"
    return re.sub("^s3://", "s3a://", uri).rstrip("/")
