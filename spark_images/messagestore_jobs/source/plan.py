"""Plan the next batch: which parts of which files, or which offsets of which partitions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.contract.records import FilesSource, RecordsSource
from messagestore_core.store.file_ends import FileEnds
from messagestore_core.store.files import Range, source_files
from messagestore_core.store.offsets import OffsetRange, Partition, ReadUpTo, offsets_in_order
from messagestore_jobs.source.compression import PLAIN

R = TypeVar("R", Range, OffsetRange)
_FILES_SHARE_OF_HEAP = 4
"""Unpacked files may take one part of so many; decisions and dead letters need the rest."""
TIMES_PACKED = 10
"""How much compressed JSON commonly grows; files that grow more are bounded one by one."""
_COMPRESSED_NAMES = r"\.(gz|zst|zstd|bz2)$"
"""What names say of files whose first bytes nobody has looked at, for estimates alone."""
_WINDOWS = 128 << 20
"""Bytes outside of the heap that the extension takes to unpack zstd, at most."""
_NEXT = 1_000
"""Of so many waiting files it is asked whether they are zstd."""
RETENTION: Final = "Retention"
"""The broker removed the records before they were read."""
TOPIC_DELETED: Final = "TopicDeleted"
"""The topic was deleted, and made again, before they were read."""

_RECORDS_SHARE_OF_PYTHON = 3
_PYTHON_BYTES_A_RECORD = 500
"""About how much Python holds of each record."""
_PACED_SECONDS = 5
"""A batch has as many records as the rate limit allows in this time."""
_RECORDS_SHARE_OF_HEAP = 4
_BYTES_A_RECORD = 1024
"""About how much a driver holds of each record: its id, its stream, hashes and positions."""


def packed(pieces: Iterable[R], target: int) -> list[list[R]]:
    """Pack pieces into parts of about size ``target``, in their order."""
    parts: list[list[R]] = []
    size = target
    for piece in pieces:
        if size >= target:
            parts.append([])
            size = 0
        parts[-1].append(piece)
        size += piece.end - piece.start
    return parts


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one batch; a batch has at least one range, even beyond them.

    Attributes:
        files: how many files it reads.
        bytes: how many bytes of them, as they are stored.
        unpacked: about how many bytes after decompression.
    """

    files: int
    bytes: int
    unpacked: int


def without_windows(python: int, waiting: Sequence[Range], *, twice: bool = False) -> int:
    """Bytes for Python's data beside the windows of zstd, where files say that they have some.

    ``twice``: a task unpacks its file twice at a time.
    """
    is_zstd = (r.compression == "zstd" or r.file.uri.endswith((".zst", ".zstd")) for r in waiting[:_NEXT])
    return max(python // 2, python - (1 + twice) * _WINDOWS) if any(is_zstd) else python


def held_at_once(python: int) -> int:
    """How many records of a batch fit into so many bytes for Python's data."""
    return max(1, python // (_RECORDS_SHARE_OF_PYTHON * _PYTHON_BYTES_A_RECORD))


def limits_of_files(source: FilesSource | RecordsSource, batch_bytes: int, heap: int, held: int) -> BatchLimits:
    """The smallest limits: of the stream, of the run, of the driver's heap, and of bytes that the driver may hold."""
    unpacked = max(1, min(heap_for_files(heap), held))
    if source.max_bytes_per_batch is not None:
        return BatchLimits(100_000, min(source.max_bytes_per_batch, batch_bytes), unpacked)
    return BatchLimits(source.max_files_per_batch or 1000, batch_bytes, unpacked)


def heap_for_files(heap: int) -> int:
    """How many unpacked bytes of files a batch may have, by the driver's heap."""
    return max(1, heap // _FILES_SHARE_OF_HEAP)


def unpacked(r: Range) -> int:
    """About how many bytes a range has after decompression."""
    if r.unpacked_from is not None and r.unpacked_to is not None:
        return r.unpacked_to - r.unpacked_from
    return unpacked_bytes(r, r.end - r.start)


def unpacked_bytes(r: Range, stored: int) -> int:
    """About what so many bytes of a file as it is stored unpack to."""
    packed = re.search(_COMPRESSED_NAMES, r.file.uri) if r.compression is None else r.compression != PLAIN
    return stored * (TIMES_PACKED if packed else 1)


def unpacked_sizes(files: pa.Table) -> npt.NDArray[np.int64]:
    """About how many bytes each listed file has after decompression."""
    times = np.where(pc.match_substring_regex(files["uri"], _COMPRESSED_NAMES).to_numpy(), TIMES_PACKED, 1)
    return np.asarray(times * files["size"].to_numpy(), np.int64)


def is_unknown(r: Range, size: int) -> bool:
    """Whether a file of lines would be cut, as it has more than ``size`` bytes, if its first bytes were looked at."""
    return r.compression is None and _is_whole(r) and r.file.size > size


def _is_whole(r: Range) -> bool:
    return r.start == 0 and r.end == r.file.size


def pending_files(listed: Iterable[pa.Table], read: FileEnds) -> list[Range]:
    """All that has not been read, in order of arrival: by modification time, then by name.

    The listing has columns ``uri``, ``size`` and ``modified_at``, in portions; only new files become Python objects.
    """
    ranges: list[Range] = []
    for files in listed:
        ends = read.of(files)
        new = ends < files["size"].to_numpy()
        starts = np.maximum(ends[new], 0).tolist()
        ranges += [Range(f, start, f.size) for f, start in zip(source_files(files.filter(new)), starts, strict=True)]
    return sorted(ranges, key=lambda r: (r.file.modified_at, r.file.uri))


def next_files(waiting: Iterable[Range], bounds: BatchLimits, *, splittable: bool) -> tuple[Range, ...]:
    """The first ranges within the limits; a file that is too large itself is cut if it can be.

    A part of a file that was cut between records is a batch of its own. Of a file that is too large, the compression is
    known, or it is not cut; ``splittable`` says whether files that are not compressed can be cut.
    """
    taken: list[Range] = []
    room, room_unpacked = bounds.bytes, bounds.unpacked
    for r in waiting:
        fits = r.end - r.start <= room and unpacked(r) <= room_unpacked
        alone = r.unpacked_from is not None
        if len(taken) == bounds.files or (taken and (alone or not fits)):
            break
        if not fits and cut_by_bytes(r, splittable=splittable):
            r = replace(r, end=r.start + min(room, room_unpacked))
        taken.append(r)
        room -= r.end - r.start
        room_unpacked -= unpacked(r)
        if alone or min(room, room_unpacked) <= 0:
            break
    return tuple(taken)


def cut_by_bytes(r: Range, *, splittable: bool) -> bool:
    """Whether a file can be cut at any byte: it has lines and is known as not compressed, or it was cut so before."""
    return splittable and r.unpacked_from is None and (r.compression == PLAIN or not _is_whole(r))


def exceeds(r: Range, bounds: BatchLimits) -> bool:
    """Whether a file probably has more than a batch may have."""
    return r.end - r.start > bounds.bytes or unpacked(r) > bounds.unpacked


def cut_between_records(r: Range, first: int, cuts: Sequence[int], end: int) -> list[Range]:
    """The rest of a file in parts, each for a batch of its own; the file itself if it is one part.

    Args:
        first: where its records begin, in bytes of what the file unpacks to, as all that follows.
        cuts: where it can be cut.
        end: one past its last record.
    """
    of = max(end, r.file.size)
    parts: list[Range] = []
    start, begin = r.start, first
    for cut in cuts:
        # A part of a file has a byte of it at least, so that its end tells how far the file has been read.
        if start < (stored := r.file.size * cut // of) < r.end:
            parts.append(replace(r, start=start, end=stored, unpacked_from=begin, unpacked_to=cut))
            start, begin = stored, cut
    return [*parts, replace(r, start=start, unpacked_from=begin)] if parts or first else [r]


def rest_of_files(waiting: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """What still waits after ``next_files`` took its ranges."""
    left = list(waiting[len(taken) :])
    last, whole = taken[-1], waiting[len(taken) - 1]
    return [replace(whole, start=last.end), *left] if last.end < whole.end else left


def parts_of_files(ranges: Iterable[Range], target: int, *, splittable: bool) -> list[list[Range]]:
    """The ranges cut and packed into parts of about ``target`` bytes, in order of arrival."""
    return packed(_pieces_of_files(ranges, target, splittable=splittable), target)


def part_bytes(total: int, cores: int) -> int:
    """The size of a part: one part per core, from 1 to 64 MiB, so that a task's memory is bounded."""
    return max(1 << 20, min(64 << 20, -(-total // max(cores, 1))))


@dataclass(frozen=True)
class Listed:
    """A listed partition: its records have offsets in [earliest, latest)."""

    partition: Partition
    earliest: int
    latest: int


def most_records(wanted: int | None, setting: int, rate: float | None, heap: int, held: int) -> int:
    """How many records a batch may have: the smallest of all limits.

    Args:
        wanted: the stream's limit; None: no limit.
        setting: the run's own limit.
        rate: the stream's rate limit in records a second; None: no limit.
        heap: of the driver, in bytes.
        held: see ``held_at_once``.
    """
    paced = setting if rate is None else max(1, round(rate * _PACED_SECONDS))
    return min(wanted or setting, setting, paced, held, max(1, heap // (_RECORDS_SHARE_OF_HEAP * _BYTES_A_RECORD)))


def pending_offsets(
    listed: Iterable[Listed], read: Mapping[Partition, ReadUpTo], *, from_latest: bool
) -> list[OffsetRange]:
    """All that has not been read, in order of arrival; lost ranges say why in ``lost``.

    Args:
        listed: the source's partitions, now.
        read: how far each has been read; empty before the first batch.
        from_latest: whether a new source begins at the partitions' ends. Then empty ranges note where that is.
    """
    parts = list(listed)
    if not read and from_latest:
        return list(offsets_in_order(OffsetRange(one.partition, one.latest, one.latest, one.latest) for one in parts))
    return list(offsets_in_order([*_of_deleted(parts, read), *(r for one in parts for r in _of_partition(one, read))]))


def next_offsets(waiting: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
    """At most ``limit`` records, a fair share of each partition.

    Lost ranges don't count.
    """
    lost = [r for r in waiting if r.lost or r.start == r.end]
    ready = [r for r in waiting if not r.lost and r.start < r.end]
    total = sum(r.end - r.start for r in ready)
    if total <= limit:
        return offsets_in_order([*lost, *ready])
    shares = {r: (r.end - r.start) * limit // total for r in ready}
    # What rounding leaves goes to the partitions with most records, so that none waits for ever.
    for r in sorted(ready, key=lambda r: r.start - r.end)[: limit - sum(shares.values())]:
        shares[r] += 1
    return offsets_in_order([*lost, *(replace(r, end=r.start + share) for r, share in shares.items() if share)])


def rest_of_offsets(waiting: Sequence[OffsetRange], taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What still waits after ``next_offsets`` took its ranges."""
    ends = {(r.partition, r.start): r.end for r in taken}
    left = (replace(r, start=ends.get((r.partition, r.start), r.start)) for r in waiting)
    return [r for r in left if r.start < r.end]


def parts_of_offsets(ranges: Iterable[OffsetRange], target: int) -> list[list[OffsetRange]]:
    """The ranges without lost ones, cut and packed into parts of about ``target`` records, in order of arrival."""
    pieces = (
        replace(r, start=start, end=min(start + target, r.end))
        for r in ranges
        if r.lost is None
        for start in range(r.start, r.end, target)
    )
    return packed(pieces, target)


def still_stored(planned: Sequence[OffsetRange], listed: Iterable[Listed]) -> tuple[OffsetRange, ...]:
    """The ranges of a planned batch that could not be read, with lost parts marked; often unchanged."""
    now = {one.partition: one for one in listed}
    return offsets_in_order(r for one in planned for r in _what_is_left(one, now.get(one.partition)))


def _pieces_of_files(ranges: Iterable[Range], target: int, *, splittable: bool) -> Iterator[Range]:
    for r in ranges:
        if not cut_by_bytes(r, splittable=splittable):
            yield r
            continue
        for start in range(r.start, max(r.end, r.start + 1), target):
            yield replace(r, start=start, end=min(start + target, r.end))


def _of_partition(one: Listed, read: Mapping[Partition, ReadUpTo]) -> list[OffsetRange]:
    before = read.get(one.partition)
    if before and before.offset > one.latest:
        # A log may lose its end when a broker crashes. It goes on before what was read: note from where.
        return [OffsetRange(one.partition, one.latest, one.latest, one.latest)]
    start = before.offset if before else one.earliest
    ranges = []
    if start < one.earliest:
        ranges.append(OffsetRange(one.partition, start, one.earliest, one.latest, RETENTION))
        start = one.earliest
    if start < one.latest:
        ranges.append(OffsetRange(one.partition, start, one.latest, one.latest))
    return ranges


def _of_deleted(listed: Sequence[Listed], read: Mapping[Partition, ReadUpTo]) -> list[OffsetRange]:
    """The unread ranges of topics that were deleted and made again, as far as they are known."""
    now = {one.partition.topic: one.partition.topic_id for one in listed}
    return [
        OffsetRange(partition, up_to.offset, up_to.latest, up_to.latest, TOPIC_DELETED)
        for partition, up_to in read.items()
        if now.get(partition.topic, partition.topic_id) != partition.topic_id and up_to.offset < up_to.latest
    ]


def _what_is_left(r: OffsetRange, now: Listed | None) -> list[OffsetRange]:
    if r.lost or r.start == r.end:
        return [r]
    if now is None:
        return [replace(r, lost=TOPIC_DELETED)]
    # If a log lost its end, the range ends earlier, and the next one goes on from there.
    end = max(r.start, min(r.end, now.latest))
    if now.earliest <= r.start:
        return [replace(r, end=end)]
    first = min(now.earliest, end)
    return [replace(r, end=first, lost=RETENTION), *([replace(r, start=first, end=end)] if first < end else [])]
