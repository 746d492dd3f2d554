"""The maintenance of one store: compaction, checkpoints, clean-up, sweep. Each step may be repeated.

Compaction merges the small files of days that are not over; the rows of each file stay together and in order.
Clustering rewrites a day that is over in order of its streams, so that one stream is read from few pages. Batches are
written in order of arrival, as sorting would make each slower.
"""

import re
from collections.abc import Generator, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, WriterProperties
from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from messagestore_core.clock import rfc3339, shifted
from messagestore_core.contract.run_document import MaintainTask
from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_core.store.delta_log import DAY, end_of, files_of, of_day, table_state
from messagestore_core.store.layout import CLAIM_CHECK_NAME, CLAIM_CHECKS, INDEX, PARTIAL, PURGES, REPLAYS
from messagestore_core.store.objects import Objects
from messagestore_core.store.purges import find_plans
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.tombstones import forget_purged
from messagestore_jobs.context import MaintenanceRun, Run
from messagestore_jobs.frozen.replays import unfinished
from messagestore_jobs.index.manifest import unnamed
from messagestore_jobs.index.store_index import kept_index
from messagestore_jobs.rows.messages import committing, read_messages, refuse_foreign_to_spark
from messagestore_jobs.session import settings

# The row group size of files that Spark writes.
_WRITER = WriterProperties(compression="ZSTD", max_row_group_size=1 << 16)
# A reader of one stream unpacks all pages with its rows: by default up to 20,000 rows of each narrow column. Files of
# batches have a stream's rows in all pages, so their pages stay large.
_SMALL_PAGES = {"parquet.page.row.count.limit": "4096"}

_LOG = "delta.logRetentionDuration"
_FILES = "delta.deletedFileRetentionDuration"
_YOUNG = timedelta(days=1)
"""Younger objects may belong to a batch that is not committed yet."""
_CLAIM_CHECK = re.compile(CLAIM_CHECK_NAME)
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
_FOLDERS = ("", CLAIM_CHECKS, PURGES, REPLAYS)


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
    tables = context.store.existing_tables()
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
        _cluster(context, day, int(pc.sum(of_day(files, day)["size_bytes"]).as_py()))
        context.progress.advance(1)
        yield


def days_to_cluster(files: pa.Table, today: date, compact_bytes: int) -> list[date]:
    """The days before ``today`` to rewrite, oldest first, of the flattened add actions of ``messages``.

    They have a file that was written before the day's end, or by others without statistics, or several small ones.
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
            commit_properties=_properties(context, name),
        )
    return bool(done["numFilesAdded"])


def _is_unordered(one: dict[str, Any]) -> bool:
    """Whether a file of the day was written before the day's end or has no statistics, or several are small."""
    written: datetime = one["written_min"]
    return written.replace(tzinfo=UTC) < end_of(one["day"]) or one["untold_sum"] > 0 or one["small_sum"] > 1


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


def clean(context: MaintenanceRun) -> tuple[int, str | None]:
    """Write a checkpoint of each table, and remove what is past its retention.

    A replay reads the table version that it froze, and a purge of whole days the version that it was decided on. Until
    they end, all that these versions need stays. That includes claim checks: those of purged messages are removed after
    the data files with their rows. Return how many files were removed from storage, and why some were kept.
    """
    task = context.task
    frozen = min([*_replays(context), *_purges(context)], key=lambda one: one.at, default=None)
    keeps_log = _outlasts(frozen, context.as_of, task.log_retention)
    keeps_files = _outlasts(frozen, context.as_of, task.deleted_file_retention)
    removed = 0
    tables = context.store.existing_tables()
    context.progress.step("clean", len(tables))
    for name in tables:
        _set_retention(context, name)
        _check_point(context, name, clean_log=not keeps_log)
        if not keeps_files:
            removed += _vacuum(context, name)
        context.progress.advance(1)
    return removed, _why(frozen, keeps_log or keeps_files)


class _Reader(NamedTuple):
    """A replay or purge that reads an earlier version until it ends."""

    at: datetime
    what: str
    remedy: str


def sweep(context: MaintenanceRun) -> int:
    """Remove objects that nothing refers to; return how many."""
    context.progress.step("sweep")
    objects = Aged(context.uri, context.store.storage)
    before = context.as_of - _YOUNG
    unnamed_ = unnamed(context.store)
    runs = [name for name in objects.older(INDEX, before, recursive=True) if name in unnamed_]
    names = [*_orphans(context, objects, before), *_half_written(objects, before), *runs]
    for name in names:
        with context.store.step("sweep"):
            objects.delete(name)
    return len(names)


class Aged(Objects):
    """Objects with their ages."""

    def older(self, below: str, before: datetime, *, recursive: bool = False) -> list[str]:
        """Names of the objects below a name that were written before a moment."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True, recursive=recursive)
        prefix = len(self._root) + 1
        return sorted(
            info.path[prefix:]
            for info in self._fs.get_file_info(selector)
            if info.is_file and info.mtime is not None and info.mtime < before
        )


def _replays(context: MaintenanceRun) -> list[_Reader]:
    """The replays that may still read this store. Those in this folder count, as they may read any store."""
    oldest = context.task.oldest_replay
    times = [*(replay.at for replay in unfinished(context.store)), *([oldest] if oldest else [])]
    return [_Reader(at, "replay", "let it end, or delete it") for at in times]


def _purges(context: MaintenanceRun) -> list[_Reader]:
    """The purges of whole days that broke off; the next purge of any policy continues them."""
    cut_short = [plan for plan in find_plans(context.store) if plan.days]
    return [_Reader(plan.decided_at, "purge", "let a purge of this store run") for plan in cut_short]


def _outlasts(frozen: _Reader | None, as_of: datetime, retention: timedelta) -> bool:
    return frozen is not None and frozen.at <= shifted(as_of, -retention)


def _why(frozen: _Reader | None, kept: bool) -> str | None:
    if frozen is None or not kept:
        return None
    return (
        f"a {frozen.what} that began at {rfc3339(frozen.at)} has not ended, and earlier versions are kept no longer "
        f"than that without it: {frozen.remedy}"
    )


def _set_retention(context: MaintenanceRun, name: str) -> None:
    """Set the table's retention properties, for other writers of its log."""
    wanted = {_LOG: _interval(context.task.log_retention), _FILES: _interval(context.task.deleted_file_retention)}
    table = context.store.open_to_write(name)
    if wanted.items() <= table.metadata().configuration.items():
        return
    with context.store.step(f"retention-{name}"):
        table.alter.set_table_properties(wanted, commit_properties=_properties(context, name))


def _check_point(context: MaintenanceRun, name: str, *, clean_log: bool) -> None:
    table = context.store.table(name)
    with context.store.step(f"checkpoint-{name}"):
        table.create_checkpoint()
    if clean_log:
        with context.store.step(f"log-{name}"):
            table.cleanup_metadata()


def _vacuum(context: MaintenanceRun, name: str) -> int:
    """Remove files that no version within the retention has, and those that broken runs left; return how many."""
    hours = int(context.task.deleted_file_retention / timedelta(hours=1))
    table = context.store.open_to_write(name)
    if not table.vacuum(retention_hours=hours, enforce_retention_duration=False, full=True):
        return 0
    with context.store.step(f"vacuum-{name}"):
        removed = table.vacuum(
            retention_hours=hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            commit_properties=_properties(context, name),
        )
    return len(removed)


def _properties(context: MaintenanceRun, name: str) -> CommitProperties:
    return context.store.commit_properties(context.note() if name == "messages" else None)


def _interval(length: timedelta) -> str:
    return f"interval {int(length.total_seconds())} seconds"


def _orphans(context: MaintenanceRun, objects: Aged, before: datetime) -> list[str]:
    """The claim checks that no row refers to, by their names, as folders have several spellings.

    If a data file can't be read, none is returned, as that file may refer to any.
    """
    old = [name for name in objects.older(CLAIM_CHECKS, before) if _CLAIM_CHECK.fullmatch(name.rpartition("/")[2])]
    if not old:
        return []
    spark = context.spark
    old_names = spark.createDataFrame([(name, name.rpartition("/")[2]) for name in old], "path string, name string")
    current = read_messages(spark, context.store).select("payload_uri")
    files = spark.read.schema("payload_uri string").option("recursiveFileLookup", "true")
    kept = files.option("pathGlobFilter", "*.parquet").parquet(context.store.path("messages"))
    claim_checks = current.union(kept).where("payload_uri is not null")
    names = claim_checks.select(F.substring_index("payload_uri", "/", -1).alias("name"))
    try:
        return sorted(row["path"] for row in old_names.join(names, "name", "left_anti").collect())
    except (PySparkException, Py4JJavaError) as error:
        if not any(sign in str(error) for sign in _UNREADABLE):
            raise
        context.progress.say("no claim checks were swept, as a data file of messages can't be read")
        return []


def _half_written(objects: Aged, before: datetime) -> list[str]:
    """Half-written objects of killed runs; only local stores have them."""
    names = [name for folder in _FOLDERS for name in objects.older(folder, before, recursive=bool(folder))]
    return [name for name in names if name.endswith(PARTIAL)]
