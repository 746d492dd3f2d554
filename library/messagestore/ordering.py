"""Sort rows by a key, in memory of bounded size."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from tempfile import NamedTemporaryFile

import pyarrow as pa
import pyarrow.compute as pc

HELD_BYTES = 64 << 20
"""The most bytes of rows in memory; more rows are kept in temporary files."""


def in_order(parts: Iterable[pa.Table], key: str, page: int) -> Iterator[pa.Table]:
    """The rows of all parts in order of a key, ``page`` rows at a time.

    Args:
        parts: at least one, in any order.
        key: a column of unique whole numbers.

    Raises:
        OSError: a temporary file can't be written.
    """
    runs: list[pa.Table] = []
    held: list[pa.Table] = []
    size = 0
    for part in parts:
        held.append(part)
        size += part.nbytes
        if size > HELD_BYTES:
            runs.append(_put_down(_sorted(held, key)))
            held, size = [], 0
    if held:
        runs.append(_sorted(held, key))
    for rows in _merged(runs, key, page):
        for begin in range(0, rows.num_rows, page):
            yield rows.slice(begin, page)


def _sorted(parts: list[pa.Table], key: str) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.take(pc.sort_indices(rows[key]))


def _put_down(rows: pa.Table) -> pa.Table:
    """The same rows, mapped from a deleted temporary file, which is gone once they are released."""
    with NamedTemporaryFile(prefix="messagestore-") as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


def _merged(runs: list[pa.Table], key: str, page: int) -> Iterator[pa.Table]:
    """Merge sorted runs, as many rows at a time as may be in memory."""
    if len(runs) < 2:
        yield from runs
        return
    keys = _sorted([run.select([key]) for run in runs], key)[key]
    step = max(page, len(keys) * HELD_BYTES // sum(run.nbytes for run in runs))
    edges = keys.take(pa.array(range(step, len(keys), step), pa.int64())).to_pylist()
    begins = [0] * len(runs)
    for edge in [*edges, None]:
        ends = [
            run.num_rows if edge is None else bisect_left(run[key], edge, key=lambda at: at.as_py()) for run in runs
        ]
        yield _sorted([run.slice(b, e - b) for run, b, e in zip(runs, begins, ends, strict=True)], key)
        begins = ends
