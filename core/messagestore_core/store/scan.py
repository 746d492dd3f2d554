"""Scan the rows of a table, whoever wrote its files.

Arrow compares a filter with the statistics of each row group, which have the types that the file says. It can't compare
a text with a ``string_view``, which delta-rs writes wherever it rewrites rows.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

_MATCHES = "messagestore_matches"
_FOOTERS_AT_ONCE = 16


def scan(
    dataset: ds.FileSystemDataset,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    **how: Any,
) -> pa.RecordBatchReader:
    """Some columns of the rows that match, batch by batch as they are read; in any order.

    Args:
        dataset: of the table, with its schema.
        columns: to read; None: all.
        where: the condition. Files that can't match by the table's log are not read.
        how: settings of Arrow's scanner, such as batch_size.
    """
    schema = pa.schema([dataset.schema.field(name) for name in columns or dataset.schema.names])
    if where is None:
        return dataset.scanner(columns=schema.names, **how).to_reader()
    return pa.RecordBatchReader.from_batches(schema, _matching(dataset, schema, where, how))


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
    there = {field.name: field.type for field in schema}
    return all(there.get(field.name, field.type) == field.type for field in fragment.physical_schema)


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
        found = batch.filter(batch[_MATCHES])
        yield pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)
