"""Recognize files that changed since they were read, where records are identified by their places.

A file that begins with all that was read of it has grown: reading goes on from there. Any other has another content, of
the next generation. The digests of what is read are part of a batch's plan, so they are known before its records are.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from messagestore_core.contract.records import FilesSource
from messagestore_core.store.files import Known, Range, ReadFiles, SourceFile
from messagestore_core.store.objects import path_of, reached
from messagestore_core.store.storage import Storage
from messagestore_jobs.source.compression import PLAIN, SIGN_BYTES, Compression, DamagedError, compression_of, unpacked

_AT_ONCE = 4
"""How many files are read at once."""
_BLOCK = 8 << 20
"""Bytes that are read at once of each; on object storage, each block is a request."""

Opener = Callable[[SourceFile], pa.NativeFile]
LINE = 1 << 16
"""Bytes that are searched at once for an end of a line."""
_LONGEST = 1 << 20
"""Bytes. A longer last line isn't parsed to see whether it is whole."""


class Contents:
    """The contents of one source's files."""

    def __init__(self, read: ReadFiles, uri: str, storage: Storage, *, whole: bool = False) -> None:
        """``whole``: whether a file can only be read whole, as one of documents."""
        self._read, self._open, self._whole = read, opener(uri, storage), whole

    def going_on(self, waiting: Sequence[Range]) -> list[Range]:
        """What waits, without what is known of contents that were read before, and with generations."""
        known = self._read.known({r.file.uri for r in waiting})
        return [one for r in waiting for one in (self._unread(r, known[r.file.uri]) if r.file.uri in known else [r])]

    def with_digests(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        """The ranges up to the ends of their last lines, with digests; as they are where the file can't be read."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return tuple(pool.map(self._with_digest, ranges))

    def replaced(self, ranges: Sequence[Range]) -> frozenset[SourceFile]:
        """The files of planned ranges that have other bytes there by now; not those that can't be read."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            are = pool.map(self._is_replaced, ranges)
            return frozenset(r.file for r, is_replaced in zip(ranges, are, strict=True) if is_replaced)

    def _is_replaced(self, r: Range) -> bool:
        with suppress(OSError), self._open(r.file) as content:
            return r.digest is not None and _digest(content, r.start, r.end)[0] != r.digest
        return False

    def _unread(self, r: Range, known: Known) -> list[Range]:
        """What is to be read of a file that this source or another has read before."""
        own = known.own
        if r.start > 0 and own and own[-1].file == r.file:
            return [replace(r, generation=own[-1].generation)]
        others = [read for read in known.others if not own or read[-1].generation >= own[-1].generation]
        contents = [own, *others] if own else others
        begins = [self._begins_with(r.file, read) for read in contents]
        if None in (begins[:1] if own else begins):
            # An earlier release read it: read it as that did.
            return [replace(r, start=0, generation=max(known.reach))]
        same = [read for read, is_same in zip(contents, begins, strict=True) if is_same]
        if not same:
            return [replace(r, start=0, generation=max(known.reach) + (1 if contents else 0))]
        longest = max(same, key=lambda read: (read[-1].end, read[-1].generation))
        rest = self._rest(r, longest, known.reach)
        return again_as(longest, own[-1].end if own in same else 0, rest)

    def _begins_with(self, file: SourceFile, read: Sequence[Range]) -> bool | None:
        """Whether a file begins with what was read; None: an earlier release read it and did not note what."""
        if any(one.digest is None for one in read):
            return None
        if read[-1].end <= file.size:
            with suppress(OSError), self._open(file) as content:
                return all(_digest(content, one.start, one.end)[0] == one.digest for one in read)
        return False

    def _rest(self, r: Range, read: Sequence[Range], reach: Mapping[int, int]) -> Range:
        """What follows in a file after what was read of it."""
        last = read[-1]
        # Another source may have read more of this generation, and other bytes.
        generation = last.generation if reach[last.generation] <= last.end else max(reach) + 1
        if self._whole:
            return replace(r, start=0, generation=generation)
        with suppress(OSError), self._open(r.file) as content:
            compression = _compression(content)
            if last.end > 0 and (compression is not None) != _was_unpacked(read):
                # What was read by its name, or before enough of it was there, is other lines.
                return replace(r, start=0, generation=max(reach) + 1)
            half = _half_line(content, r.file, last, compression)
            if compression is not None:
                # Places are those of the unpacked content, so all of it is read again.
                return replace(r, start=0, generation=generation if half is None else max(reach) + 1)
            if half is not None:
                # A line that goes on is another record, and has another identity.
                return replace(r, start=half, generation=max(reach) + 1)
        return replace(r, start=0 if _was_unpacked(read) else last.end, generation=generation)

    def _with_digest(self, r: Range) -> Range:
        with suppress(OSError), self._open(r.file) as content:
            # Only files that are not compressed are cut by bytes.
            is_cut = 0 < r.end < r.file.size and r.unpacked_from is None
            end = _end_of_line(content, r.end - 1, r.file.size) if is_cut else r.end
            digest, start = _digest(content, r.start, end)
            if r.unpacked_from:
                return replace(r, digest=digest)
            compression = PLAIN if is_cut or r.start > 0 else compression_of(start) or PLAIN
            return replace(r, end=end, digest=digest, compression=compression)
        return r


def again_as(read: Sequence[Range], start: int, rest: Range) -> list[Range]:
    """A file's bytes from ``start`` on in the generations that they were read in, then the rest."""
    begun = [rest]
    for one in reversed(read):
        if one.start < begun[0].start:
            begun.insert(0, replace(rest, start=one.start, end=begun[0].start, generation=one.generation))
    left = (replace(one, start=max(one.start, start)) for one in begun[:-1] if one.end > start)
    return [*left, rest]


def _end_of_line(content: pa.NativeFile, at: int, size: int) -> int:
    """One past the end of the line at a byte of a file."""
    for block in _blocks(content, at, size, LINE):
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return size


def _was_unpacked(read: Sequence[Range]) -> bool:
    """Whether what was read of a file was unpacked; an earlier release went by the name."""
    first = read[0]
    return first.file.uri.endswith(".gz") if first.compression is None else first.compression != PLAIN


def _half_line(content: pa.NativeFile, file: SourceFile, last: Range, compression: Compression | None) -> int | None:
    """Where a line begins that had no end when it was read, and now goes on; None: nowhere."""
    if last.end == 0 or last.end == file.size:
        return None
    if compression is not None:
        return None if _unpacks_to_lines(content, last.end, compression) else 0
    begins = after_last_line(content, last.end)
    return begins if begins < last.end else None


def _unpacks_to_lines(content: pa.NativeFile, end: int, compression: Compression) -> bool:
    """Whether the last line of a compressed file's start has an end; of a damaged one it became a dead letter."""
    last = b"\n"
    with suppress(DamagedError):
        for block in unpacked(content.get_stream(0, end), compression):
            last = block[-1:]
        return last == b"\n"
    return True


def _compression(content: pa.NativeFile) -> Compression | None:
    content.seek(0)
    return compression_of(content.read(SIGN_BYTES))


def _digest(content: pa.NativeFile, start: int, end: int) -> tuple[str, bytes]:
    """The digest of bytes of a file, and the first of them."""
    digest, first = hashlib.sha256(), b""
    for block in _blocks(content, start, end, _BLOCK):
        digest.update(block)
        first = first or block[:SIGN_BYTES]
    return digest.hexdigest(), first


def _blocks(content: pa.NativeFile, start: int, end: int, size: int) -> Iterator[bytes]:
    content.seek(start)
    while start < end and (block := content.read(min(size, end - start))):
        yield block
        start += len(block)


class LastLines:
    """The last lines of one source's files, which may still be written: one without an end waits until a file rests."""

    def __init__(self, source: FilesSource, rest: timedelta, storage: Storage) -> None:
        self._parses, self._rest = source.format == "JSONLines", rest
        self._open = opener(source.uri, storage)

    def apart(self, waiting: Iterable[Range], at: datetime) -> tuple[list[Range], list[Range]]:
        """What can be read at a time, and last lines that may still be written."""
        ready: list[Range] = []
        open_lines: list[Range] = []
        for r in waiting:
            # A time far in the future says nothing.
            rests = abs(at - r.file.modified_at) >= self._rest
            end = r.end if rests else self._ended(r)
            if end > r.start or r.start == r.end:
                ready.append(replace(r, end=end))
            if end < r.end:
                open_lines.append(replace(r, start=max(end, r.start)))
        return ready, open_lines

    def _ended(self, r: Range) -> int:
        """One past the last whole line of what waits of a file."""
        if r.end < r.file.size or r.start == r.end:
            return r.end
        with suppress(OSError), self._open(r.file) as content:
            end = after_last_line(content, r.end)
            if end < r.end and _compression(content) is not None:
                return r.end
            if not (self._parses and r.end - end <= _LONGEST):
                return end
            content.seek(end)
            return r.end if _is_object(content.read(r.end - end)) else end
        return r.end


def opener(uri: str, storage: Storage) -> Opener:
    """Opens files below a URI, all by one client."""
    filesystem, _ = reached(uri, storage)
    return lambda file: filesystem.open_input_file(path_of(file.uri))


def after_last_line(content: pa.NativeFile, end: int) -> int:
    """One past the last end of a line before a byte of a file; 0 where there is none."""
    while end > 0:
        start = max(0, end - LINE)
        content.seek(start)
        newline = content.read(end - start).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
        end = start
    return 0


def _is_object(line: bytes) -> bool:
    """Whether a line is a whole JSON object, which no part of one is."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
