"""Sorted runs in objects beside the tables; a look-up reads few of their blocks.

An object has the entries, then the first hash of each block of entries, the checksum of each block, and a Bloom filter.
Look-ups are in order of the hashes, so a local object is mapped into memory and read in order.
"""

import hashlib
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from messagestore_core.store.id_index import BLOCK, SortedRunInfo
from messagestore_core.store.objects import Objects
from messagestore_jobs.index import filters
from messagestore_jobs.index.entries import ENTRY, Entries, Lookup, SortedRun, cut, matches, spread, together
from messagestore_jobs.index.keys import Keys, Order, Words

_BLOCKS_AT_ONCE = 8192
_GAP = 64 << 10
"""On object storage, gaps of so many bytes are read too, rather than asked around."""
_THREADS = 16
_GONE = ("NO_SUCH_KEY", "RESOURCE_NOT_FOUND")
"""In pyarrow's error about an object that was deleted after it was opened."""
_WHOLE = 4
"""Once a fourth of an object has been read in pieces, all of it is fetched."""


class TornIndexError(Exception):
    """An object of the index is not what was written, or is gone."""


class _Parts(NamedTuple):
    """The first hash and the checksum of each block, and a filter over all entries."""

    first: Words
    sums: npt.NDArray[np.uint32]
    filter: npt.NDArray[np.uint32]


class StoredRun(SortedRun):
    """A sorted run in an object; all that is read of it is checked.

    It is opened with the first look-up, as sorted runs that are too old are never looked at. ``folder`` is a local one,
    for what is fetched from object storage.
    """

    def __init__(self, objects: Objects, info: SortedRunInfo, folder: Path) -> None:
        self.info = info
        self._objects, self._folder = objects, folder
        self._file: pa.NativeFile | None = None
        self._entries: Entries | None = None
        self._fetched = 0

    @cached_property
    def _parts(self) -> "_Parts":
        """The part of the object after the entries.

        Raises:
            TornIndexError: the object is gone, or not what was written.
        """
        info = self.info
        try:
            tail = self._open()
        except OSError as error:
            _refuse_gone(info.name, error)
            raise
        if hashlib.sha256(tail.data).hexdigest() != info.digest:
            raise TornIndexError(f"{info.name} is not what was written")
        sums, bits = info.blocks * 8, info.blocks * 12
        return _Parts(
            first=tail[:sums].view("<u8"),
            sums=tail[sums:bits].view("<u4"),
            filter=tail[bits:].view(filters.WORD).reshape(-1, filters.WORDS),
        )

    def _open(self) -> npt.NDArray[np.uint8]:
        """What follows the entries; the entries are then in memory, or can be read by ``_read``."""
        info, local = self.info, self._objects.local_path(self.info.name)
        if local is None:
            self._file = self._objects.file(info.name, info.bytes)
            self._check_size(self._file.size())
            return np.memmap(self._fetch("tail", info.entry_bytes, info.bytes), mode="r")
        self._check_size(Path(local).stat().st_size)
        whole = np.memmap(local, mode="r")
        self._entries = whole[: info.entry_bytes].view(ENTRY)
        return whole[info.entry_bytes :]

    def _check_size(self, size: int) -> None:
        if size != self.info.bytes:
            raise TornIndexError(f"{self.info.name} has {size} bytes, not {self.info.bytes}")

    def __len__(self) -> int:
        return self.info.count

    @override
    def is_older(self, than: int) -> bool:
        return self.info.newest < than

    @override
    def find(self, keys: Keys) -> Lookup:
        parts, order = self._parts, keys.by_high
        high = keys.high[order]
        order = order[filters.may_have(parts.filter, high, keys.low[order])]
        high = keys.high[order]
        # If a block begins with a hash, the block before it may end with the same hash.
        last = np.maximum(np.searchsorted(parts.first, high, "right") - 1, 0)
        first = np.maximum(np.searchsorted(parts.first, high, "left") - 1, 0)
        parts_of = (slice(at, at + _BLOCKS_AT_ONCE) for at in range(0, len(order), _BLOCKS_AT_ONCE))
        return together([self._find(keys, order[part], first[part], last[part]) for part in parts_of])

    def _find(self, keys: Keys, order: Order, first: Order, last: Order) -> Lookup:
        entries = self._blocks(np.unique(spread(first, last - first + 1)[1]))
        return matches(entries, np.ascontiguousarray(entries["high"]), keys, order)

    @override
    def between(self, first: int, last: int) -> Entries:
        firsts = self._parts.first
        begin = max(0, int(np.searchsorted(firsts, np.uint64(first), "left")) - 1)
        end = int(np.searchsorted(firsts, np.uint64(last), "right"))
        entries = self._blocks(np.arange(begin, end))
        return cut(entries, np.ascontiguousarray(entries["high"]), first, last)

    def _blocks(self, numbers: Order) -> Entries:
        """The entries of some blocks (ascending).

        Raises:
            TornIndexError: one is not what was written.
        """
        if not len(numbers):
            return np.empty(0, dtype=ENTRY)
        entries = self._from_memory(numbers) if self._entries is not None else self._from_store(numbers)
        if not np.array_equal(_sums(entries), self._parts.sums[numbers]):
            raise TornIndexError(f"{self.info.name} is not what was written")
        return entries

    def _from_memory(self, numbers: Order) -> Entries:
        assert self._entries is not None
        begins, ends = _ranges(numbers, 1)
        pieces = [self._entries[b * BLOCK : e * BLOCK] for b, e in zip(begins, ends, strict=True)]
        return np.ascontiguousarray(np.concatenate(pieces))

    def _from_store(self, numbers: Order) -> Entries:
        size = BLOCK * ENTRY.itemsize
        begins, ends = _ranges(numbers, _GAP // size)
        self._fetched += int((ends - begins).sum()) * size
        if self._fetched > self.info.entry_bytes // _WHOLE:
            path = self._fetch("entries", 0, self.info.entry_bytes)
            self._entries = np.memmap(path, ENTRY, "r", shape=(self.info.count,))
            return self._from_memory(numbers)
        spans = [(b * size, min(e * size, self.info.entry_bytes)) for b, e in zip(begins, ends, strict=True)]
        with ThreadPoolExecutor(_THREADS) as threads:
            read = list(threads.map(lambda span: self._read(*span), spans))
        whole = np.frombuffer(b"".join(read), dtype=ENTRY)
        # Leave out blocks in gaps, which were not asked for.
        rows = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends, strict=True)])
        wanted = np.repeat(np.isin(rows, numbers), BLOCK)[: len(whole)]
        return whole[wanted]

    def _read(self, begin: int, end: int) -> bytes:
        assert self._file is not None
        try:
            return bytes(self._file.read_at(end - begin, begin))
        except OSError as error:
            _refuse_gone(self.info.name, error)
            raise

    def _fetch(self, what: str, begin: int, end: int) -> Path:
        path = self._folder / f"{self.info.name}.{what}"
        step = 8 << 20
        spans = [(at, min(at + step, end)) for at in range(begin, end, step)]
        with path.open("wb") as sink, ThreadPoolExecutor(_THREADS) as threads:
            for piece in threads.map(lambda span: self._read(*span), spans):
                sink.write(piece)
        return path


def write_sorted_run(objects: Objects, name: str, chunks: Iterable[Entries], at_most: int) -> SortedRunInfo | None:
    """Write entries that come in order, ``at_most`` so many; without any, delete the object and return None."""
    filter_blocks = filters.blocks_for(at_most)
    first, sums, count, newest = [np.empty(0, "<u8")], [np.empty(0, "<u4")], 0, 0
    with tempfile.TemporaryFile() as room, objects.writing(name) as sink:
        bits = np.memmap(room, filters.WORD, "w+", shape=(filter_blocks, filters.WORDS))
        for entries in _whole_blocks(chunks):
            filters.add(bits, entries["high"], entries["low"])
            sink.write(entries)
            count += len(entries)
            newest = max(newest, int(np.maximum(entries["value"], ~entries["value"]).max(initial=0)))
            first.append(entries["high"][::BLOCK].astype("<u8"))
            sums.append(_sums(entries))
        digest = hashlib.sha256()
        for part in (np.concatenate(first), np.concatenate(sums), bits):
            digest.update(part)  # type: ignore[arg-type]
            sink.write(part)
    if not count:
        objects.delete(name)
        return None
    return SortedRunInfo(name=name, count=count, filter_blocks=filter_blocks, digest=digest.hexdigest(), newest=newest)


def _refuse_gone(name: str, error: OSError) -> None:
    """Tell of an object that is gone.

    Any other error, as of the network or of credentials, says nothing of the index: to make it again would fail too, or
    read the whole table in vain.
    """
    if isinstance(error, FileNotFoundError) or any(sign in str(error) for sign in _GONE):
        raise TornIndexError(f"{name} can't be read: {error}") from error


def _sums(entries: Entries) -> npt.NDArray[np.uint32]:
    """The checksum of each block; all blocks but the last are whole."""
    content = entries.view(np.uint8).data
    size = BLOCK * ENTRY.itemsize
    return np.array([zlib.crc32(content[at : at + size]) for at in range(0, len(content), size)], np.uint32)


def _ranges(numbers: Order, gap: int) -> tuple[Order, Order]:
    """Ascending numbers as ranges [begin, end) with gaps larger than ``gap`` between them."""
    cuts = np.flatnonzero(np.diff(numbers) > max(gap, 1)) + 1
    return numbers[np.concatenate([[0], cuts])], numbers[np.concatenate([cuts - 1, [-1]])] + 1


def _whole_blocks(chunks: Iterable[Entries]) -> Iterator[Entries]:
    left = np.empty(0, dtype=ENTRY)
    for chunk in chunks:
        entries = np.concatenate([left, chunk])
        whole = len(entries) // BLOCK * BLOCK
        if whole:
            yield entries[:whole]
        left = entries[whole:]
    if len(left):
        yield left
