"""Which files, and which parts of them, the next batch reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from messagestore_jobs.contract.run_document import FilesSource, RecordsSource
from messagestore_jobs.source.parts import packed
from messagestore_jobs.store.files import Range, SourceFile, in_order

_SHARE_OF_HEAP = 4
"""What is decided on, and what is set aside, is held beside what is read of a batch."""
_TIMES_PACKED = 10
"""What JSON in a gzip commonly grows to; the few files that grow to more are bounded one by one."""


@dataclass(frozen=True)
class BatchLimits:
    """Bounds on one batch; a batch has at least one range.

    Attributes:
        files: how many it reads.
        bytes: how much of them, as they lie.
        unpacked: about how much that is once it is read.
    """

    files: int
    bytes: int
    unpacked: int


def limits(source: FilesSource | RecordsSource, batch_bytes: int, heap: int) -> BatchLimits:
    """The tighter of what the stream asks for and what a driver may hold, of a heap of so many bytes."""
    unpacked = max(1, heap // _SHARE_OF_HEAP)
    if source.max_bytes_per_batch is not None:
        return BatchLimits(100_000, min(source.max_bytes_per_batch, batch_bytes), unpacked)
    return BatchLimits(source.max_files_per_batch or 1000, batch_bytes, unpacked)


def unpacked(r: Range) -> int:
    """About how much a range holds once it is read."""
    return (r.end - r.start) * (_TIMES_PACKED if r.file.uri.endswith(".gz") else 1)


def pending(listed: Iterable[SourceFile], read_up_to: Mapping[SourceFile, int]) -> list[Range]:
    """What has not been read, in order of arrival, however late or old a file is."""
    ranges = (Range(f, read_up_to.get(f, -1), f.size) for f in in_order(list(listed)))
    return [Range(r.file, max(r.start, 0), r.end) for r in ranges if r.start < r.end]


def next_batch(waiting: Iterable[Range], bounds: BatchLimits, *, splittable: bool) -> tuple[Range, ...]:
    """The first ranges within the bounds; a file that is too large by itself is cut where it may be."""
    taken: list[Range] = []
    room, room_unpacked = bounds.bytes, bounds.unpacked
    for r in waiting:
        fits = r.end - r.start <= room and unpacked(r) <= room_unpacked
        if len(taken) == bounds.files or (taken and not fits):
            break
        if not fits and splittable and not r.file.uri.endswith(".gz"):
            r = Range(r.file, r.start, r.start + min(room, room_unpacked))
        taken.append(r)
        room -= r.end - r.start
        room_unpacked -= unpacked(r)
        if min(room, room_unpacked) <= 0:
            break
    return tuple(taken)


def rest(waiting: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """What still waits once :func:`next_batch` has taken its ranges."""
    left = list(waiting[len(taken) :])
    last, whole = taken[-1], waiting[len(taken) - 1]
    return [Range(last.file, last.end, whole.end), *left] if last.end < whole.end else left


def partitions(ranges: Iterable[Range], target: int, *, splittable: bool) -> list[list[Range]]:
    """The ranges cut and packed into parts of about ``target`` bytes, in order of arrival."""
    return packed(_pieces(ranges, target, splittable=splittable), target)


def _pieces(ranges: Iterable[Range], target: int, *, splittable: bool) -> Iterator[Range]:
    for r in ranges:
        if not splittable or r.file.uri.endswith(".gz"):
            yield r
            continue
        for start in range(r.start, max(r.end, r.start + 1), target):
            yield Range(r.file, start, min(start + target, r.end))


def part_bytes(total: int, cores: int) -> int:
    """A part's size: one a core for small batches, at most 64 MiB, so that a task's memory is bounded."""
    return max(1 << 20, min(64 << 20, -(-total // max(cores, 1))))
