"""The maintenance of one store: compaction, checkpoints, clean-up, sweep. Each step may be repeated.

Compaction merges the small files of days that are not over; the rows of each file stay together and in order.
Clustering rewrites a day that is over in order of its streams, so that one stream is read from few pages. Batches are
written in order of arrival, as sorting would make each slower.
"""

from collections.abc import Generator, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties
from pyspark.sql import functions as F

from messagestore_core.contract.run_document import MaintainTask
from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_core.store.delta_log import DAY, end_of, files_of, of_day, table_state
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.tombstones import forget_purged
from messagestore_jobs.context import MaintenanceRun, Run
from messagestore_jobs.index.store_index import kept_index
from messagestore_jobs.maintain.clean import clean, sweep
from messagestore_jobs.rows.messages import committing, read_messages
from messagestore_jobs.rows.tables import refuse_foreign_to_spark
from messagestore_jobs.session import settings

# The row group size of files that Spark writes.
_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=1 << 16)
# A reader of one stream unpacks all pages with its rows: by default up to 20,000 rows of each narrow column. Files of
# batches have a stream's rows in all pages, so their pages stay large.
_SMALL_PAGES = {"parquet.page.row.count.limit": "4096"}


def maintaining(run: Run) -> Generator[None, None, MaintainOutcome]:
    """The steps of a maintenance; the caller may write to the store between two steps."""
    context = run.with_task(MaintainTask)
    before = table_state(context.store)
    days = 0
    for step in (cluster_messages, compact_messages):
        for _ in step(context):
            days += 1
            yield
    compacted = [days > 0]
    tables = context.store.tables_there()
    if REMEMBERED in tables:
        forget_purged(context.store, context.as_of)
    for name in tables:
        if name != "messages":
            compacted.append(compact_whole(context, name))
            if compacted[-1]:
                yield
    yield
    index = kept_index(context.spark, context.store)
    removed, kept_because = clean(context)
    if index is not None:
        index.go_on_behind_a_cut()
    if kept_because is not None:
        context.progress.say(f"files and log entries past their retention were kept: {kept_because}")
    yield
    swept = sweep(context)
    after = table_state(context.store)
    return MaintainOutcome(
        files_before=before.files,
        files_after=after.files,
        bytes_before=before.bytes,
        bytes_after=after.bytes,
        table_version_before=before.version,
        table_version_after=after.version,
        tables_compacted=sum(compacted),
        files_removed=removed,
        objects_removed=swept,
        kept_because=kept_because,
        table=after,
    )


def run_maintain(run: Run) -> MaintainOutcome:
    """Carry out all steps of a maintenance.

    The caller has opened the folder and holds the right to write.

    Raises:
        RunStoppedError: the run was told to stop, and ended between two steps.
    """
    steps = maintaining(run)
    while True:
        run.between_commits()
        try:
            next(steps)
        except StopIteration as end:
            outcome: MaintainOutcome = end.value
            return outcome


def compact_messages(context: MaintenanceRun) -> Iterator[None]:
    """Compact day by day, each in its own commit; yields after each day that had files to merge."""
    today = context.as_of.date()
    days = days_to_compact(context.store.table("messages"), today, _compact_bytes(context))
    context.progress.step("compact", len(days))
    for day in days:
        written = _compact(context, "messages", [("inserted_date", "=", day)])
        context.progress.advance(1)
        if written:
            yield


def compact_whole(context: MaintenanceRun, name: str) -> bool:
    """Compact a table in one commit, also one of few days; return whether any file was written."""
    files = files_of(context.store.table(name))
    small = files.filter(pc.field("size_bytes") < _compact_bytes(context)) if files.num_rows else files
    return small.num_rows > 1 and _compact(context, name, None)


def days_to_compact(table: DeltaTable, today: date, compact_bytes: int) -> list[str]:
    """The days from ``today`` on with more than one file below ``compact_bytes``, oldest first."""
    files = files_of(table)
    if files.num_rows == 0:
        return []
    small = files.filter(pc.field("size_bytes") < compact_bytes)
    days = small.group_by(DAY).aggregate([("size_bytes", "count")]).filter(pc.field("size_bytes_count") > 1)
    return sorted(day.isoformat() for day in days[DAY].to_pylist() if day >= today)


def cluster_messages(context: MaintenanceRun) -> Iterator[None]:
    """Cluster day by day, each in its own commit; yields after each."""
    files = files_of(context.store.table("messages"))
    days = days_to_cluster(files, context.as_of.date(), _compact_bytes(context))
    context.progress.step("cluster", len(days))
    for day in days:
        _cluster(context, day, _bytes(files, day))
        context.progress.advance(1)
        yield


def days_to_cluster(files: pa.Table, today: date, compact_bytes: int) -> list[date]:
    """The days before ``today`` to rewrite, oldest first.

    They have a file that was written before the day's end, or by others without statistics, or several small ones.

    Args:
        files: add actions of ``messages``, flattened.
        today: days before it are over.
        compact_bytes: smaller files are small.
    """
    if not files.num_rows:
        return []
    small = pc.less(files["size_bytes"], compact_bytes).cast(pa.int64())
    written = files["modification_time"].cast(pa.timestamp("ms"))
    bound = files["max.global_position"]
    unbounded = pc.and_(pc.is_null(bound), pc.fill_null(pc.greater(files["num_records"], 0), True)).cast(pa.int64())
    facts = pa.table({"day": files[DAY], "written": written, "small": small, "untold": unbounded}).group_by("day")
    days = facts.aggregate([("written", "min"), ("small", "sum"), ("untold", "sum")]).sort_by("day").to_pylist()
    return [one["day"] for one in days if one["day"] < today and _is_unordered(one)]


def _compact_bytes(context: MaintenanceRun) -> int:
    """Compaction leaves files of this size and larger as they are."""
    return context.task.target_file_bytes * 3 // 4


def _compact(context: MaintenanceRun, name: str, partition: list[tuple[str, str, str]] | None) -> bool:
    with context.store.step(f"compact-{name}"):
        done = context.store.open_to_write(name).optimize.compact(
            partition_filters=partition,
            target_size=context.task.target_file_bytes,
            writer_properties=_WRITER,
            commit_properties=context.store.commit_properties(context.note() if name == "messages" else None),
        )
    return bool(done["numFilesAdded"])


def _is_unordered(one: dict[str, Any]) -> bool:
    """Whether a file of the day was written before the day's end or has no statistics, or several are small."""
    written: datetime = one["written_min"]
    return written.replace(tzinfo=UTC) < end_of(one["day"]) or one["untold_sum"] > 0 or one["small_sum"] > 1


def _bytes(files: pa.Table, day: date) -> int:
    return int(pc.sum(of_day(files, day)["size_bytes"]).as_py())


def _cluster(context: MaintenanceRun, day: date, size: int) -> None:
    rows = read_messages(context.spark, context.store).where(F.col("inserted_date") == F.lit(day))
    parts = max(1, round(size / context.task.target_file_bytes))
    ranges = rows.coalesce(1) if parts == 1 else rows.repartitionByRange(parts, "stream_name")
    refuse_foreign_to_spark(context.spark, context.store, "messages")
    ordered = ranges.sortWithinPartitions("stream_name", "position")
    day_only = {"replaceWhere": f"inserted_date = DATE'{day.isoformat()}'", "dataChange": "false"}
    with (
        settings(context.spark, _SMALL_PAGES),
        committing(context.spark, context.store, "cluster-messages", context.note()),
    ):
        to = ordered.write.format("delta").mode("overwrite").options(**day_only)
        to.save(context.store.path("messages"))
