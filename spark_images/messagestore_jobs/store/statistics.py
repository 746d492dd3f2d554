"""What a table's log tells of its files, without reading any of them."""

from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

DAY = "partition.inserted_date"
"""The column that has the day of a file of ``messages``."""


def files_of(table: DeltaTable) -> pa.Table:
    """The table's add actions, flattened: a row a file; without any file, what columns there are isn't told."""
    return pa.table(table.get_add_actions(flatten=True))


def of_day(files: pa.Table, day: date) -> pa.Table:
    """The files of one day; there is at least one file."""
    return files.filter(pc.field(DAY) == pa.scalar(day, files[DAY].type))


def end_of(day: date) -> datetime:
    """The moment after a day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def may_hold(files: pa.Table, column: str) -> bool:
    """Whether any row can have a value in a column; files that tell nothing of it may."""
    if not files.num_rows:
        return False
    if f"null_count.{column}" not in files.column_names:
        return True
    nulls = pc.fill_null(files[f"null_count.{column}"], -1)
    return bool(pc.any(pc.not_equal(nulls, files["num_records"])).as_py())


def without(files: pa.Table, column: str) -> int:
    """How many rows have no value in a column; those of a file that tells nothing of it count."""
    if not files.num_rows:
        return 0
    name = f"null_count.{column}"
    rows = files["num_records"]
    told = pc.coalesce(files[name], rows) if name in files.column_names else rows
    return int(pc.sum(told).as_py() or 0)


def may_be_before(files: pa.Table, column: str, edge: datetime) -> bool:
    """Whether any row can have a time before ``edge`` in a column; files that tell nothing of it may."""
    name = f"min.{column}"
    if name not in files.column_names:
        return bool(files.num_rows)
    least = files[name]
    if least.null_count:
        return True
    return pc.any(pc.less(least, pa.scalar(edge, least.type))).as_py() is True
