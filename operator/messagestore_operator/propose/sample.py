"""A sample of the files below a folder: the last ones by name, which are mostly the newest, and of each its start."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from messagestore.location import Location, refusals
from messagestore_core.store.objects import Objects
from messagestore_jobs.source.local_files import is_hidden

MOST_FILES = 20
_MOST_FOLDERS = 200
_MOST_BYTES, _MOST_UNPACKED = 1 << 20, 4 << 20
_GZIP = 16 + zlib.MAX_WBITS
Packing = Literal["gzip", "zstd", "bzip2"]
_SIGNS: dict[bytes, Packing] = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}


@dataclass(frozen=True)
class SampledFile:
    """A file, and its first bytes after decompression.

    Attributes:
        name: its path below the folder.
        whole: whether ``head`` is all of it.
        packing: how it is compressed, by its content.
    """

    name: str
    head: bytes
    whole: bool
    packing: Packing | None = None


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
    packing = next((packing for sign, packing in _SIGNS.items() if head.startswith(sign)), None)
    whole = len(head) <= _MOST_BYTES
    if packing == "gzip":
        unpacked = _unpacked(head)
        return SampledFile(name, unpacked[:_MOST_UNPACKED], whole and len(unpacked) <= _MOST_UNPACKED, packing)
    return SampledFile(name, head[:_MOST_BYTES], whole, packing)


def _unpacked(content: bytes) -> bytes:
    """What the members of a gzip file hold, as far as they are whole and undamaged."""
    unpacked = b""
    while content and len(unpacked) <= _MOST_UNPACKED:
        member = zlib.decompressobj(_GZIP)
        try:
            unpacked += member.decompress(content, _MOST_UNPACKED + 1 - len(unpacked))
        except zlib.error:
            break
        content = member.unused_data
    return unpacked
