"""Compaction: many small files become few large ones; the rows of one file stay together and in their order.

Of `messages` only what :mod:`cluster` leaves to it: days that are not over.
"""

from collections.abc import Iterator
from datetime import date

import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties

from messagestore_jobs.maintain.context import Context
from messagestore_jobs.store.delta_log import DAY, files_of, open_table
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write

# Groups of rows as large as those that Spark writes.
_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=1 << 16)


def compact_messages(context: Context) -> Iterator[None]:
    """Day by day, each in a commit of its own; a pause after each that had files to be put together."""
    today = context.as_of.date()
    days = days_to_compact(open_table(context.uri, "messages"), today, context.compact_bytes)
    context.progress.step("compact", len(days))
    for day in days:
        written = _compact(context, "messages", [("inserted_date", "=", day)])
        context.progress.advance(1)
        if written:
            yield


def compact_whole(context: Context, name: str) -> bool:
    """A table that has no partitions; whether any file was written."""
    files = files_of(open_table(context.uri, name))
    small = files.filter(pc.field("size_bytes") < context.compact_bytes) if files.num_rows else files
    return small.num_rows > 1 and _compact(context, name, None)


def days_to_compact(table: DeltaTable, today: date, compact_bytes: int) -> list[str]:
    """The days from ``today`` on that have more than one file smaller than this, oldest first."""
    files = files_of(table)
    if files.num_rows == 0:
        return []
    small = files.filter(pc.field("size_bytes") < compact_bytes)
    days = small.group_by(DAY).aggregate([("size_bytes", "count")]).filter(pc.field("size_bytes_count") > 1)
    return sorted(day.isoformat() for day in days[DAY].to_pylist() if day >= today)


def _compact(context: Context, name: str, partition: list[tuple[str, str, str]] | None) -> bool:
    with external_write(f"compact-{name}"):
        done = open_to_write(context.uri, name).optimize.compact(
            partition_filters=partition,
            target_size=context.task.target_file_bytes,
            writer_properties=_WRITER,
            commit_properties=commit_properties(context.uri, context.note() if name == "messages" else None),
        )
    return bool(done["numFilesAdded"])
