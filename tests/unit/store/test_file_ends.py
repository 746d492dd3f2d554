"""FileEnds gives the same answers as a dict of how far files have been read."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.store.file_ends import NOT_READ, FileEnds
from messagestore_core.store.schemas import FILES

START = datetime(2026, 1, 5, tzinfo=UTC)
COLUMNS = pa.schema([FILES.field(name) for name in ("uri", "size", "modified_at", "end")])
File = tuple[str, int, datetime]

files = st.tuples(
    st.sampled_from(["a", "b", "aé", "a\0", ""]), st.integers(0, 2), st.integers(0, 2).map(lambda n: START + n * DAY)
)
DAY = timedelta(days=1)
reads = st.lists(st.tuples(files, st.integers(0, 9)), max_size=8)


def table_of(rows: list[tuple[File, int]]) -> pa.Table:
    found = [{"uri": uri, "size": size, "modified_at": time, "end": end} for (uri, size, time), end in rows]
    return pa.Table.from_pylist(found, schema=COLUMNS)


@given(st.lists(reads, max_size=3), st.lists(reads, max_size=3), st.lists(files))
def test_the_largest_end_of_each_file_counts(
    before: list[list[tuple[File, int]]], after: list[list[tuple[File, int]]], asked: list[File]
) -> None:
    known = FileEnds(map(table_of, before))
    expected: dict[File, int] = {}
    for rows in after:
        known.add(table_of(rows))
    for file, end in (row for rows in before + after for row in rows):
        expected[file] = max(end, expected.get(file, NOT_READ))

    assert known.of(table_of([(file, 0) for file in asked])).tolist() == [expected.get(f, NOT_READ) for f in asked]
