"""Which ranges can have a read's messages, by the statistics in the log."""

from typing import Any

import pyarrow as pa

from messagestore.read_ranges import FEW, ReadRange, pieces, read_ranges, together
from messagestore.reads import Read


def file(first: int | None, last: int | None, rows: int = 10, category: str | None = "a") -> dict[str, Any]:
    return {
        "num_records": rows,
        "min.global_position": first,
        "max.global_position": last,
        "min.category": category,
        "max.category": category,
    }


def found(*files: dict[str, Any], **asked: Any) -> list[tuple[int, int, int]]:
    return [tuple(one) for one in read_ranges(pa.Table.from_pylist(list(files)), Read(**asked))]


def test_files_that_overlap_are_one_range() -> None:
    days = [file(1, 50), file(20, 60), file(30, 40), file(61, 70)]

    assert found(*reversed(days)) == [(1, 60, 30), (61, 70, 10)]


def test_files_that_end_before_the_start_or_hold_something_else_are_passed_over() -> None:
    files = [file(1, 10), file(11, 20), file(21, 30, category="b")]

    assert found(*files, equal={"category": "a"}, start=11) == [(11, 20, 10)]


def test_a_file_that_tells_nothing_may_hold_anything() -> None:
    assert [first for first, _, _ in found(file(5, 10), file(None, None, category=None), start=7)] == [0]
    assert len(found({"num_records": 3}, equal={"category": "a"}, start=10**30)) == 1


def test_a_bound_beyond_all_positions_is_one() -> None:
    assert found(file(1, 10), file(11, 20), end=10**30, newest_first=True) == [(1, 10, 10), (11, 20, 10)]
    assert found(file(1, 10), end=-(10**30), newest_first=True) == []


def test_small_neighbouring_files_are_read_together_in_growing_groups() -> None:
    small = [ReadRange(n, n, FEW // 4) for n in range(100)]

    sizes = [one.last - one.first + 1 for one in together(small)]

    assert (sizes[:3], sum(sizes)) == ([4, 16, 64], 100)


def test_a_read_of_few_messages_begins_with_short_pieces_that_grow() -> None:
    found = [ReadRange(1, 1000, 1000), ReadRange(2000, 3000, 1000)]

    few = [(piece.first, piece.last) for piece in pieces(found, Read(start=5, limit=1))]

    assert few == [(5, 20), (21, 148), (149, 1000), (2000, 3000)]
    assert list(pieces(found, Read())) == found
