"""Scan the rows of a table, whoever wrote its files, and whatever statistics they have.

Arrow compares a filter with the statistics of each row group, which have the types that the file says. It can't compare
a text with a ``string_view``, which delta-rs writes wherever it rewrites rows. And delta-rs tells Arrow of each file
that its values lie between bounds; if it knows none, these are null, and Arrow leaves the file's rows out.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from messagestore_core.clock import shifted
from messagestore_core.store.delta_log import files_of
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import EVERY_TABLE

_MATCHES = "messagestore_matches"
_FOOTERS_AT_ONCE = 16
_CUT = timedelta(milliseconds=1)
"""The log has times without what is smaller."""


def scan(
    table: DeltaTable,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    within: str | None = None,
    **how: Any,
) -> pa.RecordBatchReader:
    """Some columns of the rows that match, batch by batch as they are read; in any order.

    Args:
        columns: to read; None: all.
        where: the condition. Files that can't match by the table's log are not read.
        within: the partition to read, in SQL; None: all.
        how: settings of Arrow's scanner, such as batch_size.
    """
    dataset = table.to_pyarrow_dataset(file_pruning_predicate=within)
    if where is not None:
        dataset = _with_own_bounds(dataset, files_of(table), str(where))
    return scan_files(dataset, columns or dataset.schema.names, where, **how)


def scan_in(
    store: Store, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None, **how: Any
) -> pa.RecordBatchReader:
    """Like ``scan``, for a table of a store, which is not opened if it is known to have no rows."""
    if store.is_empty(name):
        chosen = columns or EVERY_TABLE[name].names
        return pa.RecordBatchReader.from_batches(pa.schema([EVERY_TABLE[name].field(one) for one in chosen]), [])
    return scan(store.table(name), columns, where, **how)


def may_match(table: DeltaTable, where: pc.Expression) -> pa.Table:
    """The add actions, flattened, of the files that may have a row that matches, by the table's log."""
    files = files_of(table)
    if not files.num_rows:
        return files
    dataset = _with_own_bounds(table.to_pyarrow_dataset(), files, str(where))
    left = [fragment.path for fragment in dataset.get_fragments(filter=where)]
    return files.filter(pc.is_in(files["path"], pa.array(left, pa.string())))


def scan_files(
    dataset: ds.FileSystemDataset, columns: Sequence[str], where: pc.Expression | None = None, **how: Any
) -> pa.RecordBatchReader:
    """Like ``scan``, for files with the schema of their table."""
    schema = pa.schema([dataset.schema.field(name) for name in columns])
    if where is None or not _names_texts(dataset.schema, str(where)):
        return dataset.scanner(columns=schema.names, filter=where, **how).to_reader()
    return pa.RecordBatchReader.from_batches(schema, _matching(dataset, schema, where, how))


def _names_texts(schema: pa.Schema, condition: str) -> bool:
    """Whether a condition names a column of another type than a number, a time or a day."""
    plain = (pa.types.is_integer, pa.types.is_temporal)
    return any(field.name in condition and not any(is_kind(field.type) for is_kind in plain) for field in schema)


def _with_own_bounds(dataset: ds.FileSystemDataset, files: pa.Table, condition: str) -> ds.FileSystemDataset:
    """The files of a dataset with what the log says of them, for the columns that a condition names."""
    names = [field.name for field in dataset.schema if field.name in condition]
    wanted = {f"{kind}.{name}" for kind in ("partition", "null_count", "min", "max") for name in names}
    chosen = files.select([name for name in files.column_names if name in {"path", "num_records"} | wanted])
    chosen = chosen.filter(pc.is_in(chosen["path"], pa.array(dataset.files, pa.string())))
    fragments = [
        dataset.format.make_fragment(one["path"], dataset.filesystem, _says(one, names)) for one in chosen.to_pylist()
    ]
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def _says(file: dict[str, Any], columns: Sequence[str]) -> pc.Expression:
    """What holds for all rows of a file."""
    return reduce(and_, (_holds(file, name) for name in columns), pc.scalar(True))


def _holds(file: dict[str, Any], name: str) -> pc.Expression:
    """What holds for a column in all rows of a file."""
    if f"partition.{name}" in file:
        return pc.field(name) == file[f"partition.{name}"]
    nulls, least, most = (file.get(f"{kind}.{name}") for kind in ("null_count", "min", "max"))
    if nulls is not None and nulls == file.get("num_records"):
        return pc.field(name).is_null()
    if nulls is None or least is None or most is None:
        return pc.scalar(True)
    most = shifted(most, _CUT) if isinstance(most, datetime) else most
    bounded = (pc.field(name) >= least) & (pc.field(name) <= most)
    return bounded if nulls == 0 else bounded | pc.field(name).is_null()


def _matching(
    dataset: ds.FileSystemDataset, schema: pa.Schema, where: pc.Expression, how: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    fragments = list(dataset.get_fragments(filter=where))
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as threads:
        same = list(threads.map(lambda fragment: _has_types_of(dataset.schema, fragment), fragments))
    plain = [fragment for fragment, is_same in zip(fragments, same, strict=True) if is_same]
    if plain:
        files = ds.FileSystemDataset(plain, dataset.schema, dataset.format, dataset.filesystem)
        yield from files.scanner(columns=schema.names, filter=where, **how).to_batches()
    for fragment, is_same in zip(fragments, same, strict=True):
        if not is_same:
            yield from _compared_when_read(fragment, dataset.schema, schema, where, how)


def _has_types_of(schema: pa.Schema, fragment: ds.Fragment) -> bool:
    """Whether a file's columns have the table's types; reads the footer, which the fragment keeps."""
    types = {field.name: field.type for field in schema}
    return all(types.get(field.name, field.type) == field.type for field in fragment.physical_schema)


def _compared_when_read(
    fragment: ds.Fragment, table: pa.Schema, schema: pa.Schema, where: pc.Expression, how: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The matching rows of a file: its rows are compared once they have the table's types."""
    matches = fragment.scanner(schema=table, columns={_MATCHES: where}, **how).to_batches()
    # The other columns may be much wider than those of the condition.
    if not any(pc.any(batch[_MATCHES]).as_py() for batch in matches):
        return
    wanted = {name: pc.field(name) for name in schema.names}
    for batch in fragment.scanner(schema=table, columns={**wanted, _MATCHES: where}, **how).to_batches():
        matching = batch.filter(batch[_MATCHES])
        yield pa.RecordBatch.from_arrays([matching[name] for name in schema.names], schema=schema)
