"""One run: its storage, its locks, its folder, its job; whatever happens becomes a report."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING

from messagestore_core.contract.run_document import (
    DeleteTask,
    EraseTask,
    IngestTask,
    MaintainTask,
    PurgeTask,
    ReplayTask,
    RunDocument,
)
from messagestore_core.contract.run_report import Outcome, RunError, RunReport
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.driver.control import Maintenance, RunControl, Steps
from messagestore_jobs.driver.failures import error_of, is_panic
from messagestore_jobs.driver.places import granted_tables, storage_uris, written_tables
from messagestore_jobs.driver.secrets import scrubbed, secrets_of
from messagestore_jobs.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def look(document: RunDocument, clock: Callable[[], datetime]) -> RunReport | None:
    """The report of an ingest that has nothing to do, without Spark; None where that is not certain."""
    started_at = clock()
    try:
        outcome = _nothing_new(document)
    except BaseException as failure:
        if not isinstance(failure, Exception) and not is_panic(failure):
            raise
        # Whatever is wrong, the run itself says it.
        _log.debug("a look at run %s failed", document.run, exc_info=True)
        return None
    return None if outcome is None else _report(document, started_at, clock(), outcome)


def execute(
    document: RunDocument,
    spark: Callable[[], "SparkSession"],
    progress: Progress,
    wait_seconds: float,
    clock: Callable[[], datetime],
    control: RunControl | None = None,
) -> RunReport:
    """Carry a run out and report it; a run that fails is a report too, also where Spark does not start.

    Args:
        wait_seconds: how long another process of this machine may hold a local table folder.
        clock: tells the time in UTC.
        control: stops and paces the run; without one it goes on to its end.
    """
    started_at = clock()
    outcome, error = None, None
    try:
        # Before Spark is started, so that what is wrong with a bucket shows in seconds.
        _check_reachable(document)
        outcome = _carry_out(document, spark(), progress, wait_seconds, control)
    except BaseException as failure:
        if not isinstance(failure, Exception) and not is_panic(failure):
            raise
        _log.info("run %s failed", document.run, exc_info=True)
        outcome = failure.outcome if isinstance(failure, RunFailedError) else None
        said = error_of(failure, document)
        error = said.model_copy(update={"message": scrubbed(said.message, secrets_of(document))})
    return _report(document, started_at, clock(), outcome, error)


def _report(
    document: RunDocument,
    started_at: datetime,
    finished_at: datetime,
    outcome: Outcome | None,
    error: RunError | None = None,
) -> RunReport:
    return RunReport(
        run=document.run,
        sequence=1,
        state="Failed" if error else "Succeeded",
        started_at=started_at,
        finished_at=finished_at,
        outcome=outcome,
        error=error,
    )


def _nothing_new(document: RunDocument) -> Outcome | None:
    from messagestore_core.store.storage import reaching
    from messagestore_jobs.driver.look import nothing_new

    with reaching(document.storage):
        return nothing_new(document)


def _check_reachable(document: RunDocument) -> None:
    from messagestore_core.store.storage import reaching
    from messagestore_jobs.driver.places import check_reachable

    with reaching(document.storage):
        check_reachable(storage_uris(document))


def _carry_out(
    document: RunDocument, spark: "SparkSession", progress: Progress, wait_seconds: float, control: RunControl | None
) -> Outcome:
    from messagestore_core.store.fence import holding
    from messagestore_core.store.lock import writing
    from messagestore_core.store.storage import using
    from messagestore_jobs.delete.job import run_delete
    from messagestore_jobs.ingest.job import run_ingest
    from messagestore_jobs.maintain.job import run_maintain
    from messagestore_jobs.purge.erase import run_erase
    from messagestore_jobs.purge.job import run_purge
    from messagestore_jobs.replay.job import run_replay

    with ExitStack() as held:
        held.enter_context(using(document.storage, spark))
        for uri in written_tables(document):
            held.enter_context(writing(uri, spark, wait_seconds, progress.say))
        _check(document)
        held.enter_context(holding(granted_tables(document), document.run, spark))
        _upgrade(document)
        match document.task:
            case IngestTask():
                if control is None:
                    return run_ingest(document, spark, progress)
                control.maintain_by(_maintenance(document, spark, progress))
                return control.with_upkeep(run_ingest(document, spark, progress, control))
            case PurgeTask():
                return run_purge(document, spark, progress)
            case EraseTask():
                return run_erase(document, spark, progress)
            case ReplayTask():
                return run_replay(document, spark, progress, control)
            case MaintainTask():
                return run_maintain(document, spark, progress)
            case DeleteTask():
                return run_delete(document, progress)


def _maintenance(document: RunDocument, spark: "SparkSession", progress: Progress) -> Maintenance:
    """The maintenance of the store that an ingest writes."""
    from messagestore_jobs.maintain.job import maintaining

    def begin(task: MaintainTask) -> Steps:
        return maintaining(document.model_copy(update={"task": task}), spark, progress)

    def explained(failure: Exception) -> RunError:
        said = error_of(failure, document)
        return said.model_copy(update={"message": scrubbed(said.message, secrets_of(document))})

    return Maintenance(begin, explained)


def _check(document: RunDocument) -> None:
    """Make sure that the folders are the right ones, before anything is written to them."""
    from messagestore_core.store.folder import check_folder
    from messagestore_jobs.delete.job import check_deletion

    if isinstance(document.task, DeleteTask):
        check_deletion(document)
        return
    for table in (document.table, *granted_tables(document)):
        check_folder(table)


def _upgrade(document: RunDocument) -> None:
    """Bring the stores that the run may write to this release's form; by now it has claimed them."""
    from messagestore_core.store.audit import note_holds
    from messagestore_core.store.folder import open_folder

    if isinstance(document.task, DeleteTask):
        return
    for table in granted_tables(document):
        open_folder(table, document)
    if isinstance(document.task, IngestTask):
        note_holds(document)
