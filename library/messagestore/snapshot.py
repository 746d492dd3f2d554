"""One version of a table, as a query engine sees it."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from messagestore import sql
from messagestore.place import refusals
from messagestore.reads import Chosen, Read
from messagestore_jobs.store.schemas import MESSAGES

PAGE = 1000
"""Messages that are read at once; a read of more goes on from the last."""
_CANDIDATES = 100_000
_SETTINGS = {
    # Payloads are then read of the chosen rows alone.
    "datafusion.execution.parquet.pushdown_filters": "true",
    "datafusion.execution.parquet.reorder_filters": "true",
}


class Snapshot:
    """What one call reads from, whatever is committed meanwhile."""

    def __init__(self, uri: str, table: DeltaTable, schema: pa.Schema = MESSAGES) -> None:
        self._uri, self._schema = uri, schema
        self.version: int = table.version()
        self._there = frozenset(field.name for field in table.schema().fields)
        self._engine = QueryBuilder(_SETTINGS).register(sql.TABLE, table)

    def query(self, text: str) -> pa.Table:
        """The result of an SQL query over the table, whose name in it is ``sql.TABLE``."""
        with refusals(self._uri):
            return pa.RecordBatchReader.from_stream(self._engine.execute(text)).read_all()

    def rows(
        self,
        where: Sequence[str],
        order: Sequence[str] = (),
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Columns of rows (absent: all), with the types of the schema; those that an older store lacks are null."""
        columns = columns or self._schema.names
        there = [name for name in columns if name in self._there]
        found = self.query(sql.select(there, where, order, limit))
        schema = pa.schema([self._schema.field(name) for name in columns])
        arrays = [
            found[field.name].cast(field.type) if field.name in there else pa.nulls(found.num_rows, field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def pages(self, read: Read) -> Iterator[pa.Table]:
        """The rows of a read, page by page, in its order."""
        if read.chosen is not None:
            yield from self._chosen_pages(read, read.chosen)
            return
        start, left = read.start, read.limit
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            rows = self.rows((*read.where, sql.at_least(read.key, start)), (read.key,), size)
            yield rows
            if rows.num_rows < size:
                return
            start = rows[read.key][-1].as_py() + 1
            left = None if left is None else left - size

    def _chosen_pages(self, read: Read, chosen: Chosen) -> Iterator[pa.Table]:
        waiting: list[int] = []
        left = read.limit
        for keys in self._chosen_keys(read, chosen):
            waiting += keys if left is None else keys[: left - len(waiting)]
            while len(waiting) >= PAGE or (waiting and len(waiting) == left):
                yield self._of_keys(read, waiting[:PAGE])
                left = None if left is None else left - len(waiting[:PAGE])
                del waiting[:PAGE]
            if left == 0:
                return
        if waiting:
            yield self._of_keys(read, waiting)

    def _chosen_keys(self, read: Read, chosen: Chosen) -> Iterator[list[int]]:
        """The keys of the chosen rows, in order; each step looks at more candidates than the one before."""
        start, size = read.start, PAGE
        while read.limit != 0:
            columns = (read.key, *chosen.columns)
            rows = self.rows((*read.where, sql.at_least(read.key, start)), (read.key,), size, columns)
            yield [row[read.key] for row in rows.to_pylist() if chosen.keeps(row)]
            if rows.num_rows < size:
                return
            start = rows[read.key][-1].as_py() + 1
            size = min(size * 4, _CANDIDATES)

    def _of_keys(self, read: Read, keys: list[int]) -> pa.Table:
        between = f"{read.key} between {keys[0]} and {keys[-1]}"
        return self.rows((*read.where, between, sql.one_of(read.key, keys)), (read.key,))

    def highest(self, column: str, where: Sequence[str] = ()) -> int | None:
        """The largest value of a column of whole numbers; None without a row."""
        value = pc.max(self.rows(where, (f"{column} desc",), 1, (column,))[column]).as_py()
        return None if value is None else int(value)
