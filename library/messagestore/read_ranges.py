"""Which ranges of global positions a read must look at, by the statistics of a table's files in its log."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from messagestore.reads import Read

FEW, MANY = 1 << 18, 1 << 22
"""Rows of the first and of the largest range: reads that end soon look at few rows, others need few queries."""
_PIECE = 16
"""Positions looked at for each wanted row."""
UNKNOWN = 1 << 62
"""The last position of a file without statistics."""


class ReadRange(NamedTuple):
    """Global positions from ``first`` to ``last`` inclusive, and how many rows their files have."""

    first: int
    last: int
    rows: int


def read_ranges(files: pa.Table, read: Read) -> list[ReadRange]:
    """Ranges that hold all rows of a read, in order and without overlap.

    Args:
        files: add actions of ``messages``, flattened. A file without statistics may hold any row.
    """
    if not files.num_rows or None in read.equal.values():
        return []
    for column, value in read.files.items():
        files = files.filter(_within(files, column, value or "", value))
    end = None if read.end is None else _in_reach(read.end)
    files = files.filter(_within(files, read.key, _in_reach(read.start), end))
    bounds = pa.table(
        {
            "first": pc.fill_null(_bound(files, "min", "global_position"), 0),
            "last": pc.fill_null(_bound(files, "max", "global_position"), UNKNOWN),
            "rows": pc.fill_null(files["num_records"], FEW),
        }
    ).sort_by("first")
    return list(_apart(map(ReadRange, *(column.to_pylist() for column in bounds.columns))))


def together(ranges: Iterable[ReadRange]) -> Iterator[ReadRange]:
    """Merge neighbours to ranges that each have more rows than the one before."""
    least, one = FEW, None
    for read_range in ranges:
        one = read_range if one is None else _both(one, read_range)
        if one.rows >= least:
            yield one
            least, one = min(least * 4, MANY), None
    if one is not None:
        yield one


def pieces(ranges: Iterable[ReadRange], read: Read) -> Iterator[ReadRange]:
    """The ranges; with a limit, growing pieces of them, as the first may have enough rows."""
    if read.limit is None or read.key != "global_position":
        yield from ranges
        return
    width = _PIECE * max(read.limit, 1)
    for read_range in ranges:
        first = max(read_range.first, read.start)
        last = read_range.last if read.end is None else min(read_range.last, read.end)
        while first <= last:
            if read.newest_first:
                begin, end = max(first, last - width + 1), last
                last = begin - 1
            else:
                begin, end = first, min(first + width - 1, last)
                first = end + 1
            yield read_range._replace(first=begin, last=end)
            width *= 8


def _apart(ranges: Iterable[ReadRange]) -> Iterator[ReadRange]:
    one = None
    for read_range in ranges:
        if one is not None and read_range.first > one.last:
            yield one
            one = None
        one = read_range if one is None else _both(one, read_range)
    if one is not None:
        yield one


def _both(one: ReadRange, other: ReadRange) -> ReadRange:
    return ReadRange(min(one.first, other.first), max(one.last, other.last), one.rows + other.rows)


def _in_reach(position: int) -> int:
    return max(0, min(position, UNKNOWN))


def _within(files: pa.Table, column: str, low: int | str, high: int | str | None) -> pa.ChunkedArray:
    """Which files can hold a value from ``low`` to ``high`` in a column; None: no bound."""
    reach = pc.fill_null(pc.greater_equal(_bound(files, "max", column), low), True)
    if high is None:
        return reach
    return pc.and_(reach, pc.fill_null(pc.less_equal(_bound(files, "min", column), high), True))


def _bound(files: pa.Table, which: str, column: str) -> pa.ChunkedArray:
    name = f"{which}.{column}"
    if name in files.column_names:
        return files[name]
    kind = pa.int64() if column in ("global_position", "position") else pa.string()
    return pa.chunked_array([pa.nulls(files.num_rows, kind)])
