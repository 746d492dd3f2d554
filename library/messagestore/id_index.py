"""Look an id up in the index that runs keep beside a store's tables, with a few small reads.

The index is a hint: what it says is looked up in the table, and what it doesn't know is searched there.
"""

import hashlib
import hmac
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isqrt

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.store.id_index import BLOCK, ENTRY_BYTES, IndexManifest, SortedRunInfo, read_manifest
from messagestore_core.store.objects import Objects

_ENTRY = struct.Struct("<QQq")
_HASH = struct.Struct(">QQ")
_ENTRY_FIELDS = pa.schema({"high": pa.uint64(), "low": pa.uint64(), "value": pa.int64(), "sign": pa.int64()})
_BLOCKS, _ROWS = 4_096, 1 << 16
"""Of how many blocks the entries, and how many messages, are read at once."""
_NEAR = 8
"""Hashes are spread evenly: hardly one is further from its place than so many times the root of their count."""


@dataclass(frozen=True)
class Hint:
    """When messages with an id were inserted, in microseconds; and when the newest that the index knows was."""

    inserted_at: tuple[int, ...]
    newest: int


def looked_up(objects: Objects, table_id: str, message_id: str) -> Hint | None:
    """What the index of ``messages`` with an id in its log knows; None if it knows nothing, or can't be read."""
    try:
        manifest = read_manifest(objects)
        if manifest is None or manifest.table != table_id or not manifest.ids:
            return None
        digest = hmac.digest(bytes.fromhex(manifest.key), message_id.encode(), "sha256")
        high, low = _HASH.unpack(digest[:16])
        values = [value for info in manifest.ids for value in _Run(objects, info).values(high, low)]
    except (OSError, pa.ArrowException, struct.error, UnicodeEncodeError):
        return None
    # A negative value takes one away: the message left the table.
    left = [~value for value in values if value < 0]
    times = [value for value in values if value >= 0 and value not in left]
    return Hint(tuple(times), max(info.newest for info in manifest.ids)) if times else None


def differences(objects: Objects, manifest: IndexManifest, rows: pa.Table) -> tuple[int, int]:
    """How many messages of the version that an index covers are not in it, and how many entries have no message.

    Args:
        rows: that version's columns message_id and inserted_at.

    Raises:
        OSError: an object is gone, or not what was written.
    """
    parts = [
        _ENTRY_FIELDS.empty_table(),
        *_signed(entry for info in manifest.ids for entry in _Run(objects, info).all()),
    ]
    parts += _signed(_taken(bytes.fromhex(manifest.key), rows))
    left = pa.concat_tables(parts).group_by(_ENTRY_FIELDS.names[:3]).aggregate([("sign", "sum")])["sign_sum"]
    lacking, surplus = (pc.sum(left.filter(kind(left, 0))).as_py() or 0 for kind in (pc.less, pc.greater))
    return -lacking, surplus


def _taken(key: bytes, rows: pa.Table) -> Iterator[tuple[int, int, int, int]]:
    """The entries of messages, each of which takes one of the index away."""
    for batch in rows.to_batches(_ROWS):
        times = batch["inserted_at"].cast(pa.int64()).to_pylist()
        for one, at in zip(batch["message_id"].to_pylist(), times, strict=True):
            yield *_HASH.unpack(hmac.digest(key, one.encode(), "sha256")[:16]), at, -1


def _signed(entries: Iterator[tuple[int, int, int, int]]) -> Iterator[pa.Table]:
    while some := [*islice(entries, _ROWS)]:
        columns = zip(zip(*some, strict=True), _ENTRY_FIELDS.types, strict=True)
        yield pa.table([pa.array(column, kind) for column, kind in columns], _ENTRY_FIELDS)


class _Run:
    """One object of the index.

    Raises:
        OSError: it is gone, or not what was written.
    """

    def __init__(self, objects: Objects, info: SortedRunInfo) -> None:
        filesystem, path = objects.locate(info.name)
        self._info, self._file = info, filesystem.open_input_file(path)

    def values(self, high: int, low: int) -> Iterator[int]:
        """The values of a hash."""
        with self._file:
            first, last = self._blocks_of(high)
            content = self._blocks(first, last)
        yield from (value for one, other, value in _ENTRY.iter_unpack(content) if (one, other) == (high, low))

    def all(self) -> Iterator[tuple[int, int, int, int]]:
        """All entries: both halves of a hash, a time, and 1, or -1 where one takes another away."""
        with self._file:
            tail = self._read(self._info.entry_bytes, self._info.bytes)
            if hashlib.sha256(tail).hexdigest() != self._info.digest:
                raise OSError(f"{self._info.name} is not what was written")
            for first in range(0, self._info.blocks, _BLOCKS):
                last = min(first + _BLOCKS, self._info.blocks) - 1
                for one, other, value in _ENTRY.iter_unpack(self._blocks(first, last)):
                    yield one, other, max(value, ~value), 1 if value >= 0 else -1

    def _blocks(self, first: int, last: int) -> bytes:
        """The entries of some blocks, checked by their sums."""
        content = self._read(first * BLOCK * ENTRY_BYTES, min((last + 1) * BLOCK, self._info.count) * ENTRY_BYTES)
        sums = self._read(self._info.sums_at + 4 * first, self._info.sums_at + 4 * (last + 1))
        size = BLOCK * ENTRY_BYTES
        computed = [zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)]
        if computed != list(struct.unpack(f"<{last + 1 - first}I", sums)):
            raise OSError(f"{self._info.name} is not what was written")
        return content

    def _blocks_of(self, high: int) -> tuple[int, int]:
        """The first and the last block that can have a hash, by the first hashes of the blocks near its place."""
        blocks = self._info.blocks
        place = (high * self._info.count >> 64) // BLOCK
        width = 2 + _NEAR * isqrt(self._info.count) // BLOCK
        for begin, end in ((max(0, place - width), min(blocks, place + width)), (0, blocks)):
            at = self._info.entry_bytes
            firsts = struct.unpack(f"<{end - begin}Q", self._read(at + 8 * begin, at + 8 * end))
            # If a block begins with a hash, the block before it may end with the same hash.
            first, last = begin + bisect_left(firsts, high) - 1, begin + bisect_right(firsts, high) - 1
            if (first >= begin or not begin) and (last < end - 1 or end == blocks):
                break
        return max(first, 0), max(last, 0)

    def _read(self, begin: int, end: int) -> bytes:
        return bytes(self._file.read_at(end - begin, begin))
