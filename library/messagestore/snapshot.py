"""One version of a table, read by a query engine."""

from collections.abc import Iterable, Iterator, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from messagestore import sql
from messagestore.conditions import Condition
from messagestore.location import refusals
from messagestore.ordering import in_order
from messagestore.read_ranges import UNKNOWN, ReadRange, pieces, read_ranges, together
from messagestore.reads import Chosen, Read
from messagestore_core.store.schemas import MESSAGES

PAGE = 1000
"""How many messages are returned together."""
_CANDIDATES = 100_000
_PAYLOAD = frozenset({"payload"})
_SETTINGS = {
    # With these, payloads are read of the chosen rows only.
    "datafusion.execution.parquet.pushdown_filters": "true",
    "datafusion.execution.parquet.reorder_filters": "true",
}


class Snapshot:
    """What one call reads, whatever is committed meanwhile.

    Args:
        table: at the version to read.
        schema: the columns that this release knows.
        files: the table's add actions, flattened; only for ``messages``.
    """

    def __init__(
        self, uri: str, table: DeltaTable, schema: pa.Schema = MESSAGES, files: pa.Table | None = None
    ) -> None:
        self._uri, self._schema, self._files = uri, schema, files
        self.version: int = table.version()
        self._columns = frozenset(field.name for field in table.schema().fields)
        self._engine = QueryBuilder(_SETTINGS).register(sql.TABLE, table)

    def has(self, column: str) -> bool:
        """Whether the table has a column, which older ones may lack."""
        return column in self._columns

    def query(self, text: str) -> pa.Table:
        """The result of an SQL query; it names the table ``sql.TABLE``."""
        with refusals(self._uri):
            return pa.RecordBatchReader.from_stream(self._engine.execute(text)).read_all()

    def batches(self, text: str) -> Iterator[pa.RecordBatch]:
        """Like ``query``, in batches as they come."""
        with refusals(self._uri):
            batches = pa.RecordBatchReader.from_stream(self._engine.execute(text))
        while (batch := self._next(batches)) is not None:
            yield batch

    def rows(
        self,
        where: Sequence[str],
        order: Sequence[str] = (),
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        without: Set[str] = frozenset(),
    ) -> pa.Table:
        """Columns (absent: all) of rows, with the schema's types.

        Columns that an older store lacks are null, and those that are not read.
        """
        return pa.concat_tables(self.parts(where, order, limit, columns, without))

    def pages(self, read: Read) -> Iterator[pa.Table]:
        """The rows of a read, in its order, page by page. Each file that can hold any of them is read once."""
        left = read.limit
        ranges = self._read_ranges(read)
        for piece in pieces(together(reversed(ranges) if read.newest_first else ranges), read):
            if left == 0:
                return
            for page in self._within(read, piece, left):
                left = None if left is None else left - page.num_rows
                yield page

    @property
    def last_position(self) -> int:
        """A global position that no message is behind, by the files' statistics; 0 where a file has none."""
        ends = [one.last for one in self._read_ranges(Read())]
        return max(ends, default=0) if all(end < UNKNOWN for end in ends) else 0

    def highest(self, column: str, where: Sequence[str] = ()) -> int | None:
        """The largest value of a column of whole numbers; None without rows."""
        value = pc.max(self._keys(where, column)).as_py()
        return None if value is None else int(value)

    def _read_ranges(self, read: Read) -> list[ReadRange]:
        assert self._files is not None
        return read_ranges(self._files, read)

    def _within(self, read: Read, read_range: ReadRange, limit: int | None) -> Iterator[pa.Table]:
        where = self._conditions(read, read_range)
        keys = self._chosen_keys(read, where, limit) if read.filters else self._keys(where, read.key)
        if read.newest_first:
            yield from self._backwards(read, where, keys[::-1][:limit])
            return
        keys = keys[:limit]
        if not len(keys):
            return
        where = (*where, f"{read.key} between {keys[0]} and {keys[-1]}")
        without = frozenset() if read.payloads else _PAYLOAD
        if len(keys) <= PAGE:
            yield self.rows((*where, *self._only(read, keys)), (read.key,), without=without)
            return
        parts = self.parts(where, without=without)
        if read.filters:
            parts = (part.filter(pc.is_in(part[read.key], keys)) for part in parts)
        yield from in_order(parts, read.key, PAGE)

    def _backwards(self, read: Read, where: Sequence[str], keys: pa.Array) -> Iterator[pa.Table]:
        """The rows of keys that go down, page by page."""
        without = frozenset() if read.payloads else _PAYLOAD
        for begin in range(0, len(keys), PAGE):
            page = keys[begin : begin + PAGE]
            bounds = f"{read.key} between {page[-1]} and {page[0]}"
            yield self.rows((*where, bounds, *self._only(read, page)), (f"{read.key} desc",), without=without)

    def _only(self, read: Read, keys: pa.Array) -> tuple[str, ...]:
        """The condition that a row has one of the keys, where other rows may be between them."""
        return (sql.one_of(read.key, keys.to_pylist()),) if read.filters else ()

    def _keys(self, where: Sequence[str], column: str) -> pa.Array:
        keys = self.rows(where, columns=(column,))[column].combine_chunks()
        # The engine takes as long for the first few rows in order as for all rows in any order.
        return keys.take(pc.sort_indices(keys))

    def _chosen_keys(self, read: Read, where: Sequence[str], limit: int | None) -> pa.Array:
        """The keys of the chosen rows, in order; with a limit each query reads more rows than the one before."""
        filters = read.filters
        columns = tuple(dict.fromkeys([read.key, *(column for one in filters for column in one.columns)]))
        keys = list[int]()
        if limit is None or read.newest_first or any(one.is_large for one in filters):
            for part in self.parts(where, columns=columns):
                keys += _kept(part, filters)[read.key].to_pylist()
            return pa.array(sorted(keys), pa.int64())
        start, size = read.start, PAGE
        while len(keys) < limit:
            rows = self.rows((*where, sql.at_least(read.key, start)), (read.key,), size, columns)
            keys += _kept(rows, filters)[read.key].to_pylist()
            if rows.num_rows < size:
                break
            start = rows[read.key][-1].as_py() + 1
            size = min(size * 4, _CANDIDATES)
        return pa.array(keys, pa.int64())

    def _conditions(self, read: Read, read_range: ReadRange) -> tuple[str, ...]:
        pushed = read.condition.pushed if read.condition else ()
        own = (condition for column, condition in pushed if column in self._columns)
        return (*read.conditions, *own, f"global_position between {read_range.first} and {read_range.last}")

    def parts(
        self,
        where: Sequence[str],
        order: Sequence[str] = (),
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        without: Set[str] = frozenset(),
    ) -> Iterator[pa.Table]:
        """Like ``rows``, in parts as they come; at least one part."""
        columns = columns or self._schema.names
        present = [name for name in columns if name in self._columns and name not in without]
        schema = pa.schema([self._schema.field(name) for name in columns])
        yield schema.empty_table()
        for batch in self.batches(sql.select(present, where, order, limit)):
            arrays = [
                batch[field.name].cast(field.type) if field.name in present else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.Table.from_arrays(arrays, schema=schema)

    def _next(self, batches: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with refusals(self._uri):
            return next(batches, None)


def _kept(rows: pa.Table, filters: Iterable[Condition | Chosen]) -> pa.Table:
    for one in filters:
        rows = rows.filter(one.keeps(rows))
    return rows
