"""Which files a batch reads: every byte once, in order of arrival, within limits."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.contract.records import FilesSource
from messagestore_core.store.file_ends import FileEnds
from messagestore_core.store.files import Range, SourceFile
from messagestore_core.store.schemas import FILES
from messagestore_jobs.source.plan import (
    BatchLimits,
    cut_between_records,
    held_at_once,
    is_unknown,
    limits_of_files,
    next_files,
    part_bytes,
    parts_of_files,
    pending_files,
    rest_of_files,
    unpacked,
    unpacked_sizes,
    without_windows,
)

START = datetime(2026, 1, 5, tzinfo=UTC)


def source_file(name: str, size: int, day: int = 0) -> SourceFile:
    return SourceFile(f"file:///landing/{name}", size, START + timedelta(days=day))


def whole(*files: SourceFile) -> list[Range]:
    return [Range(f, 0, f.size) for f in files]


def waiting_of(listed: list[SourceFile], read: dict[SourceFile, int]) -> list[Range]:
    """The unread ranges of a listing that came in portions."""
    known = FileEnds([table_of(*read).append_column("end", pa.array(read.values(), pa.int64()))])
    return pending_files([table_of(*listed[:2]), table_of(*listed[2:])], known)


def table_of(*files: SourceFile) -> pa.Table:
    columns = [FILES.field(name) for name in ("uri", "size", "modified_at")]
    return pa.Table.from_pylist([asdict(file) for file in files], schema=pa.schema(columns))


@st.composite
def listings(draw: st.DrawFn) -> list[SourceFile]:
    names = draw(st.lists(st.sampled_from([f"{n}{e}" for n in "abcdefgh" for e in ("", ".gz")]), unique=True))
    return [source_file(name, draw(st.integers(0, 60)), draw(st.integers(0, 3))) for name in names]


bounds = st.builds(BatchLimits, files=st.integers(1, 4), bytes=st.integers(1, 80), unpacked=st.integers(1, 300))


def looked_at(ranges: list[Range]) -> list[Range]:
    """The ranges, with the compression that each name says."""
    return [replace(r, compression="gzip" if is_packed(r) else "none") for r in ranges]


def is_packed(r: Range) -> bool:
    return r.file.uri.endswith(".gz")


def batches_of(listed: list[SourceFile], limit: BatchLimits, splittable: bool) -> list[tuple[Range, ...]]:
    """All batches of a run; the end of each range is recorded, as a run does."""
    read: dict[SourceFile, int] = {}
    batches = []
    while batch := next_files(looked_at(waiting_of(listed, read)), limit, splittable=splittable):
        read |= {r.file: r.end for r in batch}
        batches.append(batch)
    return batches


def size(ranges: tuple[Range, ...] | list[Range]) -> int:
    return sum(r.end - r.start for r in ranges)


def joined(ranges: list[Range]) -> list[Range]:
    """Merge adjacent ranges, without what is known of compressions."""
    result: list[Range] = []
    for r in (replace(one, compression=None) for one in ranges):
        if result and result[-1].file == r.file and result[-1].end == r.start:
            result[-1] = Range(r.file, result[-1].start, r.end)
        else:
            result.append(r)
    return result


@given(listings(), bounds, st.booleans())
def test_every_byte_of_every_file_is_in_one_batch_in_order_of_arrival(
    listed: list[SourceFile], limit: BatchLimits, splittable: bool
) -> None:
    batches = batches_of(listed, limit, splittable)
    expected = sorted(listed, key=lambda f: (f.modified_at, f.uri))
    assert joined([r for batch in batches for r in batch]) == whole(*expected)


@given(listings(), bounds, st.booleans())
def test_batches_keep_their_bounds_unless_one_file_can_not(
    listed: list[SourceFile], limit: BatchLimits, splittable: bool
) -> None:
    for batch in batches_of(listed, limit, splittable):
        assert len(batch) <= limit.files
        uncut = not splittable or is_packed(batch[0])
        inside = size(batch) <= limit.bytes and sum(map(unpacked, batch)) <= limit.unpacked
        assert inside or (len(batch) == 1 and uncut)


@given(listings(), st.integers(1, 80), st.booleans())
def test_partitions_hold_every_byte_once_in_order_of_arrival(
    listed: list[SourceFile], target: int, splittable: bool
) -> None:
    ranges = looked_at(waiting_of(listed, {}))
    parts = parts_of_files(ranges, target, splittable=splittable)
    assert joined([r for part in parts for r in part]) == waiting_of(listed, {})
    if splittable and not any(f.uri.endswith(".gz") for f in listed):
        assert all(size(part) < 2 * target for part in parts)


def test_bytes_that_were_read_do_not_wait_again() -> None:
    old, new = source_file("old", 5), source_file("new", 5, day=8)
    assert waiting_of([new, old], {new: 5}) == whole(old)
    assert waiting_of([new, old], {new: 5, old: 2}) == [Range(old, 2, 5)]
    assert waiting_of([new, old], {new: 5, old: 5}) == []


def test_an_empty_file_waits_until_it_has_been_read_once() -> None:
    empty = source_file("empty", 0)
    assert waiting_of([empty], {}) == whole(empty)
    assert waiting_of([empty], {empty: 0}) == []


def test_the_same_path_with_other_bytes_or_another_time_is_another_file() -> None:
    before = source_file("a", 5)
    touched, replaced = source_file("a", 5, day=1), source_file("a", 6)
    assert waiting_of([touched], {before: 5}) == whole(touched)
    assert waiting_of([replaced], {before: 5}) == whole(replaced)


def test_files_of_one_moment_come_by_name() -> None:
    files = [source_file(name, 1) for name in ("b", "a", "c")]
    assert [r.file.uri[-1] for r in waiting_of(files, {})] == ["a", "b", "c"]


def test_a_large_file_is_cut_and_a_compressed_one_is_not() -> None:
    large, packed = source_file("a", 25), source_file("a.gz", 25)
    limit = BatchLimits(files=10, bytes=10, unpacked=1_000)
    assert [size(b) for b in batches_of([large], limit, True)] == [10, 10, 5]
    assert [size(b) for b in batches_of([large], limit, False)] == [25]
    assert [size(b) for b in batches_of([packed], limit, True)] == [25]


def test_only_a_file_whose_first_bytes_are_known_is_cut() -> None:
    unknown = whole(source_file("a", 25))
    limit = BatchLimits(files=10, bytes=10, unpacked=1_000)
    assert next_files(unknown, limit, splittable=True) == tuple(unknown)
    assert parts_of_files(unknown, 10, splittable=True) == [unknown]
    assert [is_unknown(unknown[0], size) for size in (24, 25)] == [True, False]
    # An earlier release has cut it.
    rest = replace(unknown[0], start=5)
    assert not is_unknown(rest, 1)
    assert size(next_files([rest], limit, splittable=True)) == 10


def test_the_known_compression_of_a_file_counts_and_otherwise_its_name() -> None:
    for name, known, times in [
        *(("a", "zstd", 10), ("a.gz", "none", 1), ("a.zst", None, 10), ("a.zstd", None, 10), ("a.bz2", None, 10)),
        *(("a.gz", None, 10), ("a.gz.txt", None, 1), ("bz2", None, 1)),
    ]:
        file = source_file(name, 3)
        assert unpacked(replace(whole(file)[0], compression=known)) == 3 * times
        if known is None:
            assert unpacked_sizes(table_of(file)).tolist() == [3 * times]


def test_a_compressed_file_counts_ten_times_in_what_is_held() -> None:
    files = [source_file(name, 25) for name in ("a.gz", "b.gz", "c", "d")]
    limit = BatchLimits(files=10, bytes=1_000, unpacked=300)
    assert [size(b) for b in batches_of(files, limit, True)] == [25, 75]


@given(st.integers(1, 60), st.lists(st.integers(1, 300), unique=True), st.integers(0, 300), st.integers(0, 59))
def test_parts_between_records_have_every_byte_once_stored_and_unpacked(
    size: int, offsets: list[int], first: int, start: int
) -> None:
    file = source_file("a.gz", size)
    r = Range(file, min(start, size - 1), size)
    cuts = sorted(offset for offset in offsets if offset > first)
    end = max([first, *cuts]) + 1
    parts = cut_between_records(r, first, cuts, end)
    assert (parts[0].start, parts[-1].end) == (r.start, size)
    assert all(part.start < part.end for part in parts)
    assert all((one.end, one.unpacked_to) == (other.start, other.unpacked_from) for one, other in pairwise(parts))
    assert {part.unpacked_to for part in parts[:-1]} <= set(cuts)
    assert (parts[0].unpacked_from, parts[-1].unpacked_to) == (first if first or parts[1:] else None, None)


def test_an_uncompressed_file_is_cut_at_the_bytes_of_its_records() -> None:
    parts = cut_between_records(Range(source_file("a.json", 25), 0, 25), 0, [10, 20], 24)
    assert [(part.start, part.end) for part in parts] == [(0, 10), (10, 20), (20, 25)]


def test_a_part_that_is_cut_between_records_is_a_batch_of_its_own() -> None:
    large, small = source_file("a.json", 25), source_file("b.json", 1, day=1)
    waiting = [*cut_between_records(Range(large, 0, 25), 0, [10, 20], 25), *whole(small)]
    batches = []
    while waiting:
        batches.append(next_files(waiting, BatchLimits(files=10, bytes=1000, unpacked=1000), splittable=False))
        waiting = rest_of_files(waiting, batches[-1])
    assert [[(r.start, r.end) for r in batch] for batch in batches] == [[(0, 10)], [(10, 20)], [(20, 25)], [(0, 1)]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FilesSource(uri="file:///a"), BatchLimits(1000, 99, 20)),
        (FilesSource(uri="file:///a", max_files_per_batch=7), BatchLimits(7, 99, 20)),
        (FilesSource(uri="file:///a", max_bytes_per_batch=50), BatchLimits(100_000, 50, 20)),
        (FilesSource(uri="file:///a", max_bytes_per_batch=500), BatchLimits(100_000, 99, 20)),
    ],
)
def test_the_tighter_of_the_streams_bound_and_the_drivers_counts(source: FilesSource, expected: BatchLimits) -> None:
    assert limits_of_files(source, batch_bytes=99, heap=80, held=1000) == expected
    assert limits_of_files(source, batch_bytes=99, heap=80, held=7) == replace(expected, unpacked=7)


def test_windows_of_zstd_take_their_room_from_data_but_never_most_of_it() -> None:
    files = whole(source_file("a", 1), source_file("b.gz", 1))
    named, known = whole(source_file("c.zst", 1)), [replace(files[0], compression="zstd")]
    assert without_windows(384 << 20, files) == 384 << 20
    for waiting in (named, known):
        assert without_windows(384 << 20, [*files, *waiting]) == 256 << 20
        assert without_windows(64 << 20, waiting) == 32 << 20
        assert without_windows(768 << 20, waiting, twice=True) == 512 << 20


def test_a_batch_has_as_many_records_as_a_third_of_the_room_for_data_holds() -> None:
    assert held_at_once(384 << 20) == 268_435
    assert held_at_once(10) == 1


@given(st.integers(0, 1 << 40), st.integers(0, 64))
def test_a_part_is_between_one_and_sixty_four_mebibytes(total: int, cores: int) -> None:
    assert 1 << 20 <= part_bytes(total, cores) <= 64 << 20


@given(listings(), bounds, st.booleans())
def test_a_batch_and_the_rest_together_are_all_that_waited(
    listed: list[SourceFile], limit: BatchLimits, splittable: bool
) -> None:
    read: dict[SourceFile, int] = {}
    waiting = waiting_of(listed, read)
    while waiting:
        batch = next_files(waiting, limit, splittable=splittable)
        read |= {r.file: r.end for r in batch}
        waiting = rest_of_files(waiting, batch)
        assert waiting == waiting_of(listed, read)
