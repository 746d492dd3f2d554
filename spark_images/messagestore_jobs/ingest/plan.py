"""Which files, and which parts of them, the next batch reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from messagestore_jobs.contract.run_document import FilesSource, RecordsSource
from messagestore_jobs.store.files import Range, SourceFile, in_order


@dataclass(frozen=True)
class BatchLimits:
    """Bounds on one batch; a batch has at least one range."""

    files: int
    bytes: int


def limits(source: FilesSource | RecordsSource, batch_bytes: int) -> BatchLimits:
    """The tighter of what the stream asks for and what a driver may hold."""
    if source.max_bytes_per_batch is not None:
        return BatchLimits(files=100_000, bytes=min(source.max_bytes_per_batch, batch_bytes))
    return BatchLimits(files=source.max_files_per_batch or 1000, bytes=batch_bytes)


def pending(listed: Iterable[SourceFile], read_up_to: Mapping[SourceFile, int]) -> list[Range]:
    """What has not been read, in order of arrival, however late or old a file is."""
    ranges = (Range(f, read_up_to.get(f, -1), f.size) for f in in_order(list(listed)))
    return [Range(r.file, max(r.start, 0), r.end) for r in ranges if r.start < r.end]


def next_batch(waiting: Iterable[Range], bounds: BatchLimits, *, splittable: bool) -> tuple[Range, ...]:
    """The first ranges within the bounds; a file that is too large by itself is cut where it may be."""
    taken: list[Range] = []
    room = bounds.bytes
    for r in waiting:
        size = r.end - r.start
        if len(taken) == bounds.files or (taken and size > room):
            break
        if size > room and splittable and not r.file.uri.endswith(".gz"):
            r = Range(r.file, r.start, r.start + room)
        taken.append(r)
        room -= r.end - r.start
        if room <= 0:
            break
    return tuple(taken)


def rest(waiting: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """What still waits once :func:`next_batch` has taken its ranges."""
    left = list(waiting[len(taken) :])
    last, whole = taken[-1], waiting[len(taken) - 1]
    return [Range(last.file, last.end, whole.end), *left] if last.end < whole.end else left


def partitions(ranges: Iterable[Range], target: int, *, splittable: bool) -> list[list[Range]]:
    """The ranges cut and packed into parts of about ``target`` bytes, in order of arrival."""
    parts: list[list[Range]] = []
    size = target
    for piece in _pieces(ranges, target, splittable=splittable):
        if size >= target:
            parts.append([])
            size = 0
        parts[-1].append(piece)
        size += piece.end - piece.start
    return parts


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
