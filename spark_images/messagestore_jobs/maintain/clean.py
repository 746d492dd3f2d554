"""What is past its retention leaves storage: entries of the logs, and files that a table no longer has.

A replay reads the version of a table that it froze, and a purge that drops whole days the one that it was decided on.
While one has not ended, what that version needs stays.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from messagestore_jobs.maintain.context import Context
from messagestore_jobs.purge.plan import find_plans
from messagestore_jobs.replay.state import unfinished
from messagestore_jobs.store.delta_log import CommitNote, open_table
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.schemas import TABLES

_LOG = "delta.logRetentionDuration"
_FILES = "delta.deletedFileRetentionDuration"


def clean(context: Context) -> tuple[int, str | None]:
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


def _replays(context: Context) -> list[_Reader]:
    """Those that may still read this store; of those that lie in this folder it is not known which store they read."""
    told = context.task.oldest_replay
    times = [*(replay.at for replay in unfinished(context.uri)), *([told] if told else [])]
    return [_Reader(at, "replay", "let it end, or delete it") for at in times]


def _purges(context: Context) -> list[_Reader]:
    """Those that were cut short: the next purge carries them on, whoever's it is."""
    cut_short = [plan for plan in find_plans(context.uri) if plan.days]
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


def _set_retention(context: Context, name: str) -> None:
    """Let other writers of the log know it too."""
    wanted = {_LOG: _interval(context.task.log_retention), _FILES: _interval(context.task.deleted_file_retention)}
    table = open_to_write(context.uri, name)
    if wanted.items() <= table.metadata().configuration.items():
        return
    with external_write(f"retention-{name}"):
        table.alter.set_table_properties(wanted, commit_properties=commit_properties(context.uri, _note(context, name)))


def _check_point(context: Context, name: str, *, clean_log: bool) -> None:
    table = open_table(context.uri, name)
    with external_write(f"checkpoint-{name}"):
        table.create_checkpoint()
    if clean_log:
        with external_write(f"log-{name}"):
            table.cleanup_metadata()


def _vacuum(context: Context, name: str) -> int:
    """Files that no version within the retention has, and what broken runs left; younger ones stay."""
    hours = int(context.task.deleted_file_retention / timedelta(hours=1))
    table = open_to_write(context.uri, name)
    if not table.vacuum(retention_hours=hours, enforce_retention_duration=False, full=True):
        return 0
    with external_write(f"vacuum-{name}"):
        removed = table.vacuum(
            retention_hours=hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            commit_properties=commit_properties(context.uri, _note(context, name)),
        )
    return len(removed)


def _note(context: Context, name: str) -> CommitNote | None:
    return context.note() if name == "messages" else None


def _interval(length: timedelta) -> str:
    return f"interval {int(length.total_seconds())} seconds"
