"""Carry out one run: reach storage, take locks, open the folder, do the job. Whatever happens becomes a report."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from messagestore_core.clock import now
from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import EraseTask, PurgeTask
from messagestore_core.contract.replay import ReplayTask, Subscription
from messagestore_core.contract.run_document import DeleteTask, MaintainTask, RunDocument
from messagestore_core.contract.run_report import Outcome, RunReport, Usage
from messagestore_core.progress import ProgressListener, never
from messagestore_core.store.audit import note_holds
from messagestore_core.store.claim import holding
from messagestore_core.store.errors import RunFailedError, end_if_stopped
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder, open_folder
from messagestore_core.store.objects import check_reachable
from messagestore_core.store.storage import reaching
from messagestore_jobs.delete import check_deletion, run_delete
from messagestore_jobs.driver.control import Maintenance, RunControl, Steps
from messagestore_jobs.driver.failures import error_of, is_panic
from messagestore_jobs.driver.folders import granted_tables, needed_uris, written_tables
from messagestore_jobs.driver.idle_check import PendingWork, find_work, is_little, left_to_ingests
from messagestore_jobs.driver.usage import Meter
from messagestore_jobs.lock import erasing, replaying, subscribing, writing

# What imports Spark is imported in the functions that run once Spark has started.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from messagestore_jobs.context import Run

_log = logging.getLogger(__name__)


class IdleCheck(NamedTuple):
    """What is known of a run before Spark starts: its report if it has nothing to do, else about what it will read."""

    report: RunReport | None = None
    bytes: int | None = None
    """Of records after decompression, or of the store's files; None: not known, or the run may have other work."""
    reached: bool = False
    """Whether the buckets of the store and of all sources have answered with what they have."""

    @property
    def little(self) -> bool:
        """Whether a session for little data will do."""
        return self.bytes is not None and is_little(self.bytes)


_UNKNOWN = IdleCheck()


def check_for_work(document: RunDocument, clock: Callable[[], datetime]) -> IdleCheck:
    """Look whether a run has anything to do, without Spark."""
    started_at, meter = clock(), Meter()
    try:
        work = _find_work(document)
    except BaseException as failure:
        if not isinstance(failure, Exception) and not is_panic(failure):
            raise
        # The run itself will report the error.
        _log.debug("a look at run %s failed", document.run, exc_info=True)
        return IdleCheck()
    if work.outcome is None:
        return IdleCheck(bytes=work.bytes, reached=work.reached)
    return IdleCheck(_report(document, started_at, clock(), meter.usage(), work.outcome))


def execute(
    document: RunDocument,
    spark: Callable[[], "SparkSession"],
    progress: ProgressListener,
    wait_seconds: float,
    clock: Callable[[], datetime],
    control: RunControl | None = None,
    idle: IdleCheck = _UNKNOWN,
) -> RunReport:
    """Carry out a run and return its report, also if it fails or Spark does not start.

    Args:
        wait_seconds: how long another process of this machine may hold a local table folder.
        clock: the time in UTC.
        control: stops and paces the run; None: it goes on to its end.
        idle: what ``check_for_work`` has just said.
    """
    started_at, meter = clock(), Meter()
    outcome, error = None, None
    try:
        # Before Spark starts, so that problems with buckets show in seconds.
        if not idle.reached:
            with reaching(document.storage) as storage:
                check_reachable(needed_uris(document), storage)
        stopped = control.suspended if control else never
        end_if_stopped(stopped)
        if isinstance(document.task, DeleteTask):
            outcome = _delete(document, progress, wait_seconds, stopped)
        else:
            session = spark()
            with meter.counting(session):
                outcome = _execute(document, session, progress, wait_seconds, control, meter)
    except BaseException as failure:
        if not isinstance(failure, Exception) and not is_panic(failure):
            raise
        _log.info("run %s failed", document.run, exc_info=True)
        outcome = failure.outcome if isinstance(failure, RunFailedError) else None
        error = error_of(failure, document)
    return _report(document, started_at, clock(), meter.usage(), outcome, error)


def _report(
    document: RunDocument,
    started_at: datetime,
    finished_at: datetime,
    usage: Usage,
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
        usage=usage,
    )


def _find_work(document: RunDocument) -> PendingWork:
    with reaching(document.storage) as storage:
        match document.task:
            case ReplayTask(subscription=Subscription(continuous=True)):
                # It reads little at a time.
                return PendingWork(bytes=0)
            case PurgeTask() | ReplayTask():
                from messagestore_jobs.driver.reads import bytes_to_read

                return PendingWork(bytes=bytes_to_read(document, storage))
            case _:
                return find_work(document, storage)


def _delete(
    document: RunDocument, progress: ProgressListener, wait_seconds: float, stopped: Callable[[], bool]
) -> Outcome:
    """Delete a store, without Spark: its start would take longer than the deletion."""
    uri = document.table.uri
    with reaching(document.storage) as storage, writing(uri, None, wait_seconds, progress.say):
        store = HeldStore.of(document.table, storage)
        # Before the epoch is opened, which writes to the tables.
        check_deletion(store, document)
        with holding([store], document.run):
            return run_delete(store, document, progress, stopped)


def _execute(
    document: RunDocument,
    spark: "SparkSession",
    progress: ProgressListener,
    wait_seconds: float,
    control: RunControl | None,
    meter: Meter,
) -> Outcome:
    from messagestore_jobs.context import Run
    from messagestore_jobs.session import epochs, is_for_little, using

    with ExitStack() as held:
        storage = held.enter_context(using(document.storage, spark))
        for uri in written_tables(document):
            held.enter_context(writing(uri, spark, wait_seconds, progress.say))
        if isinstance(document.task, ReplayTask | EraseTask):
            apart = erasing if isinstance(document.task, EraseTask) else replaying
            held.enter_context(apart(document.table.uri, spark, wait_seconds, progress.say))
        if isinstance(document.task, ReplayTask) and document.task.subscription:
            held.enter_context(subscribing(document.table.uri, spark, wait_seconds, progress.say))
        run = Run.of(document, spark, progress, storage, control.suspended if control else never)
        granted = [run.store_of(table) for table in granted_tables(document)]
        for store in granted:
            store.copies_logs = isinstance(document.task, IngestTask) and is_for_little(spark)
        # Before anything is written to them.
        for store in dict.fromkeys((run.store, *granted)):
            check_folder(store)
        held.enter_context(holding(granted, document.run))
        held.enter_context(epochs(granted, spark))
        _upgrade(document, granted)
        held.callback(lambda: meter.count_appended(granted))
        outcome = _result(run, control)
        if not isinstance(document.task, IngestTask):
            for store in granted:
                store.end(left_to_ingests(store, now(document)))
        return outcome


def _result(run: "Run", control: RunControl | None) -> Outcome:
    from messagestore_jobs.ingest.job import run_ingest
    from messagestore_jobs.maintain import run_maintain
    from messagestore_jobs.purge.erase import run_erase
    from messagestore_jobs.purge.job import run_purge
    from messagestore_jobs.replay.job import run_replay

    match run.document.task:
        case IngestTask():
            if control is None:
                return run_ingest(run)
            control.maintain_by(_maintenance(run))
            return control.with_upkeep(run_ingest(run, control))
        case PurgeTask():
            return run_purge(run)
        case EraseTask():
            return run_erase(run)
        case ReplayTask():
            return run_replay(run, control, error_of)
        case MaintainTask():
            return run_maintain(run)
        case DeleteTask():
            raise TypeError("a deletion is carried out without Spark")


def _maintenance(run: "Run") -> Maintenance:
    """The maintenance of the store that an ingest writes."""
    from messagestore_jobs.maintain import maintaining

    document = run.document

    def begin(task: MaintainTask) -> Steps:
        own = document.model_copy(update={"task": task})
        return maintaining(replace(run, document=own, as_of=now(own)))

    return Maintenance(begin, lambda failure: error_of(failure, document))


def _upgrade(document: RunDocument, granted: Sequence[HeldStore]) -> None:
    """Upgrade the stores that the run may write to the format of this release; the run has claimed them."""
    for store in granted:
        open_folder(store, document)
    if isinstance(document.task, IngestTask):
        note_holds(granted[0], document)
