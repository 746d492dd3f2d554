"""One run: its locks, its folder, its job; whatever happens becomes a report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING

from messagestore_jobs.contract.run_document import PurgeTask, ReplayTask, RunDocument, StreamDestination
from messagestore_jobs.contract.run_report import Outcome, RunError, RunReport
from messagestore_jobs.progress import Progress
from messagestore_jobs.store.errors import RunFailedError
from messagestore_operator.reasons import Reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_MESSAGE = 1000
_log = logging.getLogger(__name__)


def execute(
    document: RunDocument,
    spark: SparkSession,
    progress: Progress,
    wait_seconds: float,
    clock: Callable[[], datetime],
) -> RunReport:
    """Carry a run out and report it; a run that fails is a report too."""
    started_at = clock()
    outcome, error = None, None
    try:
        outcome = _carry_out(document, spark, progress, wait_seconds)
    except RunFailedError as failed:
        error = RunError(reason=failed.reason, message=str(failed))
    except Exception as failed:
        _log.info("run %s failed", document.run, exc_info=True)
        error = RunError(reason=Reason.RUN_FAILED, message=_words(failed))
    return RunReport(
        run=document.run,
        sequence=1,
        state="Failed" if error else "Succeeded",
        started_at=started_at,
        finished_at=clock(),
        outcome=outcome,
        error=error,
    )


def written_tables(document: RunDocument) -> list[str]:
    """The table folders that a run writes, in the one order that keeps two runs from waiting for each other."""
    task = document.task
    if isinstance(task, ReplayTask):
        if task.mode == "DryRun" or not isinstance(task.destination, StreamDestination):
            return []
        # A redrive notes on the dead letters that they were sent.
        own = [document.table.uri] if task.origin == "DeadLetters" else []
        return sorted({*own, task.destination.table.uri})
    return [document.table.uri]


def _carry_out(document: RunDocument, spark: SparkSession, progress: Progress, wait_seconds: float) -> Outcome:
    from messagestore_jobs.ingest.job import run_ingest
    from messagestore_jobs.purge.job import run_purge
    from messagestore_jobs.replay.job import run_replay
    from messagestore_jobs.store.folder import exists, open_folder
    from messagestore_jobs.store.lock import writing

    with ExitStack() as locks:
        for uri in written_tables(document):
            locks.enter_context(writing(uri, spark, wait_seconds, progress.say))
        # A replay makes no store where there is none; it only has to know that the one it reads is the right one.
        if not isinstance(document.task, ReplayTask) or exists(document.table.uri):
            open_folder(document.table)
        if isinstance(document.task, ReplayTask):
            return run_replay(document, spark, progress)
        if isinstance(document.task, PurgeTask):
            return run_purge(document, spark, progress)
        return run_ingest(document, spark, progress)


def _words(error: Exception) -> str:
    """What happened, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # py4j says first which call failed; what Java said comes after a colon.
    said = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0] if lines else "")
    return f"{type(error).__name__}: {said}"[:_LONGEST_MESSAGE]
