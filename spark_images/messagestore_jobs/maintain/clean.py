"""What is past its retention leaves storage: entries of the logs, and files that a table no longer has.

A replay reads the version of a table that it froze. While one has not ended, what that version needs stays.
"""

from datetime import datetime, timedelta

from messagestore_jobs.maintain.context import Context
from messagestore_jobs.replay.state import unfinished
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.history import CommitNote, open_table
from messagestore_jobs.store.schemas import TABLES

_LOG = "delta.logRetentionDuration"
_FILES = "delta.deletedFileRetentionDuration"


def clean(context: Context) -> tuple[int, str | None]:
    """Check point every table and remove what is past its retention.

    Returns:
        How many files were removed from storage, and why some were kept nevertheless.
    """
    task = context.task
    frozen = _oldest_replay(context)
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


def _oldest_replay(context: Context) -> datetime | None:
    """When the oldest replay that may still read this store froze its selection.

    Of those that lie in this folder it is not known which store they read.
    """
    known = [replay.at for replay in unfinished(context.uri)]
    told = context.task.oldest_replay
    return min([*known, told] if told else known, default=None)


def _outlasts(frozen: datetime | None, as_of: datetime, retention: timedelta) -> bool:
    return frozen is not None and frozen <= as_of - retention


def _why(frozen: datetime | None, kept: bool) -> str | None:
    if frozen is None or not kept:
        return None
    return (
        f"a replay that began at {frozen.isoformat()} has not ended, and earlier versions are kept no longer than that "
        "without it: let it end, or delete it"
    )


def _set_retention(context: Context, name: str) -> None:
    """Let other writers of the log know it too: they clean up after themselves."""
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
