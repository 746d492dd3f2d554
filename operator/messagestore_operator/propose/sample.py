"""A sample of the files below a folder: the last ones by name, which are mostly the newest, and of each its start."""

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from messagestore.location import Location, refusals
from messagestore_core.store.objects import Objects
from messagestore_jobs.source.compression import Compression, DamagedError, compression_of, unpacked
from messagestore_jobs.source.local_files import is_hidden

MOST_FILES = 20
_MOST_FOLDERS = 200
_MOST_BYTES, _MOST_UNPACKED = 1 << 20, 4 << 20


@dataclass(frozen=True)
class SampledFile:
    """A file, and its first bytes after decompression.

    Attributes:
        name: its path below the folder.
        whole: whether ``head`` is all of it.
        compression: of the file, by its content.
    """

    name: str
    head: bytes
    whole: bool
    compression: Compression | None = None


def sample_files(folder: Location) -> list[SampledFile]:
    """Files of a folder, as an ingest finds them.

    Raises:
        StorageError: the folder can't be read.
    """
    with refusals(folder.uri):
        objects = folder.objects()
        return [_read(objects, name) for name in islice(_names(objects), MOST_FILES)]


def _names(objects: Objects) -> Iterator[str]:
    folders = [""]
    for _ in range(_MOST_FOLDERS):
        if not folders:
            return
        names = [one for one in objects.names(folders.pop()) if not is_hidden(one.split("/"))]
        yield from (name for name in reversed(names) if not name.endswith("/"))
        folders += [name.removesuffix("/") for name in names if name.endswith("/")]


def _read(objects: Objects, name: str) -> SampledFile:
    head = objects.read_first(name, _MOST_BYTES + 1) or b""
    compression = compression_of(head)
    whole = len(head) <= _MOST_BYTES
    if compression is None:
        return SampledFile(name, head[:_MOST_BYTES], whole)
    content = _unpacked(head, compression)
    return SampledFile(name, content[:_MOST_UNPACKED], whole and len(content) <= _MOST_UNPACKED, compression)


def _unpacked(head: bytes, compression: Compression) -> bytes:
    """What the start of a compressed file holds, as far as it is whole and undamaged."""
    content = b""
    with suppress(DamagedError):
        for piece in unpacked(io.BytesIO(head), compression):
            content += piece
            if len(content) > _MOST_UNPACKED:
                break
    return content
