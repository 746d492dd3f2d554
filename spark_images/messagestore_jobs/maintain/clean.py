"""What leaves storage: entries of the logs and files past their retention, and what lies there and nothing needs.

A replay reads the version of a table that it froze, and a purge that drops whole days the one that it was decided on.
While one has not ended, what that version needs stays, claim checks too: what a purge removed of these goes once the
files are gone that it was in.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from messagestore_core.store.claims import CLAIM_NAME, CLAIMS
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.external import external_write
from messagestore_core.store.fence import commit_properties, open_to_write
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import TABLES
from messagestore_jobs.index.manifest import INDEX, unnamed
from messagestore_jobs.maintain.context import MaintenanceRun
from messagestore_jobs.purge.plan import FOLDER as PURGES
from messagestore_jobs.purge.plan import find_plans
from messagestore_jobs.replay.state import REPLAYS, unfinished
from messagestore_jobs.rows.messages import read_messages

_LOG = "delta.logRetentionDuration"
_FILES = "delta.deletedFileRetentionDuration"
_YOUNG = timedelta(days=1)
"""What is younger may belong to a batch that is still to be committed."""
_CLAIM = re.compile(CLAIM_NAME)
_PARTIAL = ".partial"
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
_FOLDERS = ("", CLAIMS, PURGES, REPLAYS)


def clean(context: MaintenanceRun) -> tuple[int, str | None]:
    """Check point every table and remove what is past its retention.

    Returns:
        How many files were removed from storage, and why some were kept nevertheless.
    """
    task = context.task
    frozen = min([*_replays(context), *_purges(context)], key=lambda one: one.at, default=None)
    keeps_log = _outlasts(frozen, context.as_of, task.log_retention)
    keeps_files = _outlasts(frozen, context.as_of, task.deleted_file_retention)
    removed = 0
    context.progress.step("clean", len(TABLES))
    for name in TABLES:
        _set_retention(context, name)
        _check_point(context, name, clean_log=not keeps_log)
        if not keeps_files:
            removed += _vacuum(context, name)
        context.progress.advance(1)
    return removed, _why(frozen, keeps_log or keeps_files)


class _Reader(NamedTuple):
    """What reads a version of the past until it ends."""

    at: datetime
    what: str
    remedy: str


def sweep(context: MaintenanceRun) -> int:
    """Remove what nothing refers to; how many objects that were."""
    context.progress.step("sweep")
    objects = Aged(context.uri, context.store.storage)
    before = context.as_of - _YOUNG
    unnamed_ = unnamed(context.store)
    runs = [name for name in objects.older(INDEX, before, recursive=True) if name in unnamed_]
    names = [*_orphans(context, objects, before), *_half_written(objects, before), *runs]
    for name in names:
        with external_write("sweep"):
            objects.delete(name)
    return len(names)


class Aged(Objects):
    """Objects whose age is known."""

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
    """Those that may still read this store; of those that lie in this folder it is not known which store they read."""
    told = context.task.oldest_replay
    times = [*(replay.at for replay in unfinished(context.store)), *([told] if told else [])]
    return [_Reader(at, "replay", "let it end, or delete it") for at in times]


def _purges(context: MaintenanceRun) -> list[_Reader]:
    """Those that were cut short: the next purge carries them on, whoever's it is."""
    cut_short = [plan for plan in find_plans(context.store) if plan.days]
    return [_Reader(plan.decided_at, "purge", "let a purge of this store run") for plan in cut_short]


def _outlasts(frozen: _Reader | None, as_of: datetime, retention: timedelta) -> bool:
    return frozen is not None and frozen.at <= as_of - retention


def _why(frozen: _Reader | None, kept: bool) -> str | None:
    if frozen is None or not kept:
        return None
    return (
        f"a {frozen.what} that began at {frozen.at.isoformat()} has not ended, and earlier versions are kept no longer "
        f"than that without it: {frozen.remedy}"
    )


def _set_retention(context: MaintenanceRun, name: str) -> None:
    """Let other writers of the log know it too."""
    wanted = {_LOG: _interval(context.task.log_retention), _FILES: _interval(context.task.deleted_file_retention)}
    table = open_to_write(context.store, name)
    if wanted.items() <= table.metadata().configuration.items():
        return
    with external_write(f"retention-{name}"):
        table.alter.set_table_properties(
            wanted, commit_properties=commit_properties(context.store, _note(context, name))
        )


def _check_point(context: MaintenanceRun, name: str, *, clean_log: bool) -> None:
    table = context.store.table(name)
    with external_write(f"checkpoint-{name}"):
        table.create_checkpoint()
    if clean_log:
        with external_write(f"log-{name}"):
            table.cleanup_metadata()


def _vacuum(context: MaintenanceRun, name: str) -> int:
    """Files that no version within the retention has, and what broken runs left; younger ones stay."""
    hours = int(context.task.deleted_file_retention / timedelta(hours=1))
    table = open_to_write(context.store, name)
    if not table.vacuum(retention_hours=hours, enforce_retention_duration=False, full=True):
        return 0
    with external_write(f"vacuum-{name}"):
        removed = table.vacuum(
            retention_hours=hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            commit_properties=commit_properties(context.store, _note(context, name)),
        )
    return len(removed)


def _note(context: MaintenanceRun, name: str) -> CommitNote | None:
    return context.note() if name == "messages" else None


def _interval(length: timedelta) -> str:
    return f"interval {int(length.total_seconds())} seconds"


def _orphans(context: MaintenanceRun, objects: Aged, before: datetime) -> list[str]:
    """Claim checks by their names alone: a folder may be spelled in more than one way.

    Where a data file can't be read nothing is known of what it names; a broken run's leaves after its retention.
    """
    old = [name for name in objects.older(CLAIMS, before) if _CLAIM.fullmatch(name.rpartition("/")[2])]
    if not old:
        return []
    spark = context.spark
    found = spark.createDataFrame([(name, name.rpartition("/")[2]) for name in old], "path string, name string")
    current = read_messages(spark, context.store).select("payload_uri")
    files = spark.read.schema("payload_uri string").option("recursiveFileLookup", "true")
    kept = files.option("pathGlobFilter", "*.parquet").parquet(context.store.path("messages"))
    claimed = current.union(kept).where("payload_uri is not null")
    names = claimed.select(F.substring_index("payload_uri", "/", -1).alias("name"))
    try:
        return sorted(row["path"] for row in found.join(names, "name", "left_anti").collect())
    except (PySparkException, Py4JJavaError) as error:
        if not any(sign in str(error) for sign in _UNREADABLE):
            raise
        context.progress.say("no claim checks were swept, as a data file of messages can't be read")
        return []


def _half_written(objects: Aged, before: datetime) -> list[str]:
    """Objects that were being written when their run was killed; only a local store has such."""
    found = [name for folder in _FOLDERS for name in objects.older(folder, before, recursive=bool(folder))]
    return [name for name in found if name.endswith(_PARTIAL)]
