"""Statistics of a table's files that are complete: what the log doesn't tell of a file is read from it.

Delta allows a writer to leave statistics out, all of them or those of some columns; an OPTIMIZE by Spark does so under
a setting of its session. Absent statistics mean nothing: without them a file may have any rows.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES

Counts = Counter[str]
_FILES_AT_ONCE = 16
_ROWS_AT_ONCE = 65_536
_ROWS = "num_records"
_OPEN = "open"


def complete(store: Store, name: str, files: pa.Table, *columns: str) -> pa.Table:
    """The files, with the number of rows of each, and the nulls and bounds of some columns.

    Only files whose statistics lack one of them are read, once: their footers, or those columns. A column without
    values has no bounds.

    Args:
        files: its add actions, flattened.
        columns: of numbers, times or texts; none of them partitions the table.

    Raises:
        FileNotFoundError: a file that must be read is gone.
    """
    lacking = _lacking(files, columns)
    indices = pc.indices_nonzero(lacking).to_pylist()
    if not indices:
        return files
    paths = files["path"].take(pa.array(indices)).to_pylist()
    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        read = list(threads.map(partial(_read, store, name, columns), paths))
    for statistic in read[0]:
        values = pa.array([one[statistic] for one in read], _type_of(name, statistic))
        logged = _logged(files, name, statistic).combine_chunks()
        whole = pc.replace_with_mask(logged, lacking, values.cast(logged.type))
        at = files.schema.get_field_index(statistic)
        files = files.append_column(statistic, whole) if at < 0 else files.set_column(at, statistic, whole)
    return files


def count_open(store: Store, name: str, files: pa.Table, column: str, closed: str, *, read: bool) -> Counts | None:
    """How many rows have each value of a column of texts, without rows that have a value in another column.

    A file whose rows are all alike is counted by its statistics. Others are read once.

    Args:
        files: its add actions, flattened, complete in column ``closed``.
        column: of the values; each row has one.
        closed: the column without a value in the rows that count.

    Returns:
        The rows by value; None if files would have to be read.
    """
    wanted = ("path", _ROWS, f"null_count.{closed}", f"min.{column}", f"max.{column}")
    counts, mixed = Counts(), list[str]()
    for file in files.select([one for one in wanted if one in files.column_names]).to_pylist():
        rows, nulls = file[_ROWS], file[f"null_count.{closed}"]
        least, most = file.get(f"min.{column}"), file.get(f"max.{column}")
        if nulls == rows and least is not None and least == most:
            counts[least] += rows
        elif nulls:
            mixed.append(f"{name}/{file['path']}")
    known = store.read_statistics
    unread = [path for path in mixed if _OPEN not in known.get(path, {})]
    if unread and not read:
        return None
    with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
        open_counts = list(threads.map(partial(_count_in_file, store, column, closed), unread))
    for path, one in zip(unread, open_counts, strict=True):
        known.setdefault(path, {})[_OPEN] = one
    for path in mixed:
        counts += known[path][_OPEN]
    return counts


def _count_in_file(store: Store, column: str, closed: str, path: str) -> Counts:
    filesystem, object_path = store.objects().locate(path)
    counts = Counts()
    with pq.ParquetFile(object_path, filesystem=filesystem) as file:
        present = [one for one in (column, closed) if one in file.schema_arrow.names]
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=present):
            # Where delta-rs has rewritten rows, texts are a string_view, which Arrow can't filter.
            values = batch[column].cast(pa.string())
            counts.update((values.filter(batch[closed].is_null()) if closed in present else values).to_pylist())
    return counts


def _lacking(files: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Which files have incomplete statistics."""
    rows = _logged(files, "", _ROWS)
    known = pc.is_valid(rows)
    for column in columns:
        nulls, least, most = (_logged(files, "", f"{kind}.{column}") for kind in ("null_count", "min", "max"))
        bounded = pc.and_(pc.is_valid(least), pc.is_valid(most))
        known = pc.and_(known, pc.or_(bounded, pc.fill_null(pc.equal(nulls, rows), False)))
        known = pc.and_(known, pc.is_valid(nulls))
    return pc.invert(known).combine_chunks()


def _logged(files: pa.Table, name: str, statistic: str) -> pa.ChunkedArray:
    """What the log tells; nulls where it tells it of no file."""
    if statistic in files.column_names:
        return files[statistic]
    return pa.chunked_array([pa.nulls(files.num_rows, _type_of(name, statistic))])


def _type_of(name: str, statistic: str) -> pa.DataType:
    kind, _, column = statistic.partition(".")
    return TABLES[name].field(column).type if name and kind in ("min", "max") else pa.int64()


def _read(store: Store, name: str, columns: Sequence[str], path: str) -> dict[str, Any]:
    """The statistics of one file by their names, kept by the store's handle as a file never changes."""
    known = store.read_statistics.setdefault(f"{name}/{path}", {})
    wanted = [column for column in columns if f"null_count.{column}" not in known]
    if _ROWS not in known or wanted:
        with store.objects(name).file(path) as opened, pq.ParquetFile(opened) as file:
            known[_ROWS] = file.metadata.num_rows
            for column in wanted:
                known |= _read_column(file, column, TABLES[name].field(column).type)
    return {_ROWS: known[_ROWS]} | {
        f"{kind}.{column}": known[f"{kind}.{column}"] for column in columns for kind in ("null_count", "min", "max")
    }


def _read_column(file: pq.ParquetFile, column: str, kind: pa.DataType) -> dict[str, Any]:
    nulls, bounds = file.metadata.num_rows, pa.array([], kind)
    if column in file.schema_arrow.names:
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[column]):
            values = batch[column].cast(kind, safe=False)
            nulls -= len(values) - values.null_count
            least_and_most = pc.min_max(pa.concat_arrays([bounds, values.drop_null()]))
            bounds = pa.array([least_and_most["min"].as_py(), least_and_most["max"].as_py()], kind).drop_null()
    least, most = (bounds[0].as_py(), bounds[-1].as_py()) if len(bounds) else (None, None)
    return {f"null_count.{column}": nulls, f"min.{column}": least, f"max.{column}": most}
