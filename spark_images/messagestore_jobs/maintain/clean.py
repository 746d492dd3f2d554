"""Remove log entries and files past their retention, and objects that nothing needs.

A replay reads the table version that it froze, and a purge of whole days the version that it was decided on. Until they
end, all that these versions need stays. That includes claim checks: those of purged messages are removed after the data
files with their rows.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from messagestore_core.clock import shifted
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.layout import CLAIM_CHECK_NAME, CLAIM_CHECKS, INDEX, PARTIAL, PURGES, REPLAYS
from messagestore_core.store.objects import Objects
from messagestore_jobs.context import MaintenanceRun
from messagestore_jobs.frozen.purges import find_plans
from messagestore_jobs.frozen.replays import unfinished
from messagestore_jobs.index.manifest import unnamed
from messagestore_jobs.rows.messages import read_messages

_LOG = "delta.logRetentionDuration"
_FILES = "delta.deletedFileRetentionDuration"
_YOUNG = timedelta(days=1)
"""Younger objects may belong to a batch that is not committed yet."""
_CLAIM_CHECK = re.compile(CLAIM_CHECK_NAME)
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
_FOLDERS = ("", CLAIM_CHECKS, PURGES, REPLAYS)


def clean(context: MaintenanceRun) -> tuple[int, str | None]:
    """Write a checkpoint of each table, and remove what is past its retention.

    Returns:
        How many files were removed from storage, and why some were kept, or None.
    """
    task = context.task
    frozen = min([*_replays(context), *_purges(context)], key=lambda one: one.at, default=None)
    keeps_log = _outlasts(frozen, context.as_of, task.log_retention)
    keeps_files = _outlasts(frozen, context.as_of, task.deleted_file_retention)
    removed = 0
    tables = context.store.tables_there()
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
        f"a {frozen.what} that began at {frozen.at.isoformat()} has not ended, and earlier versions are kept no longer "
        f"than that without it: {frozen.remedy}"
    )


def _set_retention(context: MaintenanceRun, name: str) -> None:
    """Set the table's retention properties, for other writers of its log."""
    wanted = {_LOG: _interval(context.task.log_retention), _FILES: _interval(context.task.deleted_file_retention)}
    table = context.store.open_to_write(name)
    if wanted.items() <= table.metadata().configuration.items():
        return
    with context.store.step(f"retention-{name}"):
        table.alter.set_table_properties(
            wanted, commit_properties=context.store.commit_properties(_note(context, name))
        )


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
            commit_properties=context.store.commit_properties(_note(context, name)),
        )
    return len(removed)


def _note(context: MaintenanceRun, name: str) -> CommitNote | None:
    return context.note() if name == "messages" else None


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
