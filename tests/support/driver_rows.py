"""Counts the rows that a driver gets, from each source."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.classic.dataframe import DataFrame


class _Counted:
    """A dataset whose rows are counted as they are read."""

    def __init__(self, dataset: ds.Dataset, rows: Counter[str]) -> None:
        self._dataset, self._rows = dataset, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def to_table(self, *args: Any, **kwargs: Any) -> pa.Table:
        found = self._dataset.to_table(*args, **kwargs)
        self._rows["delta-rs"] += found.num_rows
        return found


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Rows by source: from Spark at once or one by one (streamed), from delta-rs, and from single files by pyarrow."""
    rows: Counter[str] = Counter()
    collect, to_arrow, iterate = DataFrame.collect, DataFrame.toArrow, DataFrame.toLocalIterator
    to_dataset, read_table = DeltaTable.to_pyarrow_dataset, pq.read_table

    def collected(self: DataFrame) -> list[Any]:
        found = collect(self)
        rows["spark"] += len(found)
        return found

    def as_arrow(self: DataFrame) -> pa.Table:
        found = to_arrow(self)
        rows["spark"] += found.num_rows
        return found

    def iterated(self: DataFrame, *args: Any) -> Iterator[Any]:
        for row in iterate(self, *args):
            rows["streamed"] += 1
            yield row

    def as_dataset(self: DeltaTable, *args: Any, **kwargs: Any) -> Any:
        return _Counted(to_dataset(self, *args, **kwargs), rows)

    def as_table(*args: Any, **kwargs: Any) -> pa.Table:
        found = read_table(*args, **kwargs)
        rows["parquet"] += found.num_rows
        return found

    with monkeypatch.context() as patch:
        patch.setattr(DataFrame, "collect", collected)
        patch.setattr(DataFrame, "toArrow", as_arrow)
        patch.setattr(DataFrame, "toLocalIterator", iterated)
        patch.setattr(DeltaTable, "to_pyarrow_dataset", as_dataset)
        patch.setattr(pq, "read_table", as_table)
        yield rows
