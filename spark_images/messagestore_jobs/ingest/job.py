"""The ingest run: batch after batch, until all that has arrived is in the store, or until it is stopped.

Each batch ends before the next one begins.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from messagestore_core.clock import now
from messagestore_core.contract.ingest import BatchTimes, IngestOutcome, IngestTask
from messagestore_core.contract.records import KafkaSource
from messagestore_core.store.batches import REPLAYED
from messagestore_core.store.claim_checks import claim_check_suffix, withdraw_claim_checks
from messagestore_core.store.dead_letters import DeadLettersBefore
from messagestore_core.store.delta_log import committed_batch, last_note, table_state
from messagestore_core.store.ended import Ended, Quiet, digest_of
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.files import ReadFiles
from messagestore_core.store.offsets import ReadOffsets
from messagestore_core.store.tombstones import open_erased
from messagestore_core.versions import declare
from messagestore_jobs.context import Run
from messagestore_jobs.index.keys import Flags, Hasher
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.ingest.batch import BatchContext, ingest_batch
from messagestore_jobs.ingest.columns import columns_of
from messagestore_jobs.ingest.dead_letters import SourceChangedError, bytes_at_once
from messagestore_jobs.ingest.earlier_events import EarlierEvents, events_since, needs_lookup
from messagestore_jobs.ingest.sequences import IncompleteSequences
from messagestore_jobs.lifecycle.job import LifecycleWork, due_at, updates_task
from messagestore_jobs.source.arrivals import Arrivals, Due, size_of, to_repeat
from messagestore_jobs.source.file_arrivals import FileArrivals
from messagestore_jobs.source.kafka_arrivals import KafkaArrivals
from messagestore_jobs.source.records import Planned

_LOOK_AGAIN_SECONDS = 0.25


class IngestControl(Protocol):
    """Controls one run; called between batches, and while the run waits for more input."""

    def stopped(self, wait: timedelta) -> bool:
        """Whether to stop now; waits up to ``wait`` for that."""

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Called after each batch and each look for more; ``tell`` reads the outcome so far from the tables."""
        return

    def between_batches(self) -> None:
        """Called while no batch is under way, for maintenance of the store."""
        return


class IngestToEnd(IngestControl):
    """Lets a run ingest what has arrived, to its end."""

    def stopped(self, wait: timedelta) -> bool:
        """True where the run would have to wait for more, false before."""
        return wait > timedelta(0)


class Throttle:
    """Keeps a rate limit of records a second; None: no limit."""

    def __init__(
        self,
        messages_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = messages_per_second, clock, sleep
        self._due = clock()

    def taken(self, records: int) -> None:
        """Count records that were ingested; unused time is lost."""
        if self._rate is not None:
            self._due += records / self._rate

    def stopped(self, control: IngestControl) -> bool:
        """Wait until the next batch may begin; true if the run was stopped before."""
        while (left := self._due - self._clock()) > 0:
            if control.stopped(timedelta(0)):
                return True
            self._sleep(min(left, _LOOK_AGAIN_SECONDS))
        self._due = self._clock()
        return control.stopped(timedelta(0))


def run_ingest(run: Run, given: IngestControl | None = None) -> IngestOutcome:
    """Ingest what has arrived; with a batch interval, look for more until stopped.

    The caller holds the right to write, and the folder is open. The run stops between batches.

    Raises:
        RunFailedError: something in the source can't be read; all else was ingested.
    """
    task = run.document.task
    assert isinstance(task, IngestTask)
    control = given or IngestToEnd()
    ingest = Ingest(run, task, control)
    ingest.ingest_arrivals()
    while task.batch_interval is not None and not control.stopped(task.batch_interval):
        ingest.ingest_arrivals()
    outcome = ingest.outcome()
    left_out = ingest.left_out()
    if left_out is not None:
        raise RunFailedError(left_out.reason, str(left_out), outcome)
    run.store.end(ingest.end(outcome))
    return outcome


class Ingest:
    """One ingest run, for callers like those of ``run_ingest``; it reads the store's state with its first batch."""

    def __init__(self, run: Run, task: IngestTask, control: IngestControl) -> None:
        self._run, self._task, self._store = run, task, run.store
        self._progress, self._control = run.progress, control
        self._opened: BatchContext | None = None
        declare(run.store, task.translators)
        self._arrivals = _arrivals(run, task)
        self._throttle = Throttle(task.messages_per_second)
        self._note = self._first = last_note(self._store)
        self._dead_letters = DeadLettersBefore(self._store)
        updates = updates_task(task)
        self._update_arrivals = _arrivals(run, updates) if updates else None
        self._withdraw_left_behind(self._update_arrivals)
        self._lifecycle = LifecycleWork(run, task, self._update_arrivals, self._first, self._days_of, self._purged)
        self._note = self._lifecycle.finish(self._note)
        self._sequences = IncompleteSequences(run, task.sequence_timeout)
        self._batches = 0
        self._times: BatchTimes | None = None
        self._committed: tuple[Planned, datetime] | None = None

    @property
    def _context(self) -> BatchContext:
        """The store's state, read by the first batch, and again after one that failed."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> BatchContext:
        self._progress.step("open")
        spark, store, task = self._run.spark, self._store, self._task
        index, erased = StoreIndex(spark, store), open_erased(store)
        suffix = claim_check_suffix(self._run.run, store.epoch)
        since = events_since(task, self._note.events_since, index.next_global)
        earlier = EarlierEvents(spark, store, since, index) if since and needs_lookup(task, since) else None
        hashes = erased.any() or (index.remembers_any and not task.stores_purged)
        columns = columns_of(
            spark,
            task,
            store.uri,
            suffix,
            bytes_at_once(spark),
            index.key,
            erased.key if hashes else None,
            earlier_events=earlier is not None,
        )
        return BatchContext(
            spark=spark,
            run=self._run.run,
            store=store,
            task=task,
            index=index,
            erased=erased,
            suffix=suffix,
            columns=columns,
            events_since=since,
            earlier_events=earlier,
        )

    def _withdraw_left_behind(self, update_arrivals: Arrivals[Any] | None) -> None:
        """Withdraw what sources that the stream no longer has set aside in batches that never ended."""
        task, store = self._task, self._store
        if task.source_id.startswith(REPLAYED):
            return
        own = {task.source_id, *([task.lifecycle.source_id] if task.lifecycle else [])}
        reads: list[Arrivals[Any] | ReadFiles | ReadOffsets] = [self._arrivals]
        if update_arrivals is not None:
            reads.append(update_arrivals)
        if not committed_batch(store, task.source_id):
            # The source before may have been of the other kind.
            reads += [ReadFiles(store, task.source_id), ReadOffsets(store, task.source_id)]
        left = [read for read in reads if read.left_behind(own)]
        if left:
            self._withdraw_claim_checks()
        for read in left:
            read.withdraw_left_behind(own)

    def _withdraw_claim_checks(self) -> None:
        """Remove the claim checks of batches that were not committed."""
        withdraw_claim_checks(self._store, self._context.index.next_global)

    def _days_of(self, message_ids: pa.Array) -> list[date]:
        return self._context.index.days_of(message_ids)

    def _purged(self, message_ids: pa.Array, at: datetime) -> Flags:
        """Which of the ids are remembered as purged at a time."""
        if self._store.remember_purged is None:
            return np.zeros(len(message_ids), dtype=np.bool_)
        return self._context.index.remembers(Hasher(self._context.erased.key).keys(message_ids.to_pylist()), at)

    def ingest_arrivals(self) -> None:
        """Ingest a batch that broke off, then all that has arrived."""
        arrivals = self._arrivals
        uncommitted = to_repeat(arrivals, lambda _: self._withdraw_claim_checks())
        arrivals.list_source()
        if arrivals.waits() or uncommitted:
            # Open it here, as a step of progress of its own.
            _ = self._context
        self._progress.step("ingest", arrivals.size() + (size_of(uncommitted.batch) if uncommitted else 0))
        if uncommitted:
            self._ingest_batch(uncommitted)
        while arrivals.waits() and not self._throttle.stopped(self._control):
            self._ingest_batch(arrivals.next())
            self._control.taken_in(self._outcome)
            self._control.between_batches()
        self._note = self._lifecycle.go_on(self._note, lambda: self._control.stopped(timedelta(0)))
        self._control.taken_in(self._outcome)
        self._control.between_batches()

    def outcome(self) -> IngestOutcome:
        """What the run did, and what the store holds."""
        if self._opened is not None:
            self._opened.index.close()
        self._arrivals.list_source()
        return self._outcome(last=True)

    def end(self, outcome: IngestOutcome) -> Ended:
        """What a later run may know of this one, after ``outcome``."""
        every, before = dict(self._every_arrivals()), self._store.ended
        sources = {source_id: seen for source_id, arrivals in every.items() if (seen := arrivals.seen()) is not None}
        # An index that was opened is closed near the table's newest version.
        is_near = self._opened is not None or (before is not None and before.adds_only)
        # Sequences are counted anew each time, as they become overdue.
        is_quiet = sources.keys() == every.keys() and outcome.sequences is None
        rest_at = min((at for one in every.values() if (at := one.lines_rest_at()) is not None), default=None)
        due = due_at(self._store, self._task.lifecycle, now(self._run.document))
        return Ended(
            asked=digest_of(self._run.document),
            sources=sources,
            adds_only=is_near and outcome.lifecycle is None,
            bytes=outcome.table.bytes,
            quiet=Quiet(outcome=outcome, due_at=due, lines_rest_at=rest_at) if is_quiet else None,
        )

    def _every_arrivals(self) -> Iterator[tuple[str, Arrivals[Any]]]:
        yield self._task.source_id, self._arrivals
        if self._task.lifecycle is not None and self._update_arrivals is not None:
            yield self._task.lifecycle.source_id, self._update_arrivals

    def left_out(self) -> RunFailedError | None:
        """Why something in a source can never be read; None: nothing."""
        return self._arrivals.left_out() or self._lifecycle.left_out()

    def _outcome(self, *, last: bool = False) -> IngestOutcome:
        return IngestOutcome(
            counts=self._note.totals - self._first.totals,
            totals=self._note.totals,
            batches=self._batches,
            last_batch=self._last_batch(),
            table=table_state(self._store, self._note, count_reasons=self._dead_letters.changed()),
            sequences=self._sequences.state(last=last),
            lag=self._arrivals.lag(),
            loss=self._arrivals.loss(),
            lifecycle=self._lifecycle.outcome(self._note),
        )

    def _last_batch(self) -> BatchTimes | None:
        """The times of the last batch; a topic is asked once for its records' times, and not of each batch."""
        if self._times is not None and self._committed is not None:
            batch, at = self._committed
            since = waited(self._arrivals.arrived_at(batch), at)
            self._times, self._committed = self._times.model_copy(update={"waited_seconds": since}), None
        return self._times

    def _ingest_batch(self, due: Due) -> None:
        """Ingest one batch, without what turns out to be gone."""
        before = self._note.totals.received
        try:
            self._note = ingest_batch(self._context, due, self._note, self._arrivals.note_cut, alone=self._is_alone())
            self._times, self._committed = self._context.stopwatch.times(), (due.batch, datetime.now(UTC))
        except (PySparkException, Py4JJavaError, DeltaError, SourceChangedError) as error:
            # Whatever the error, the table shows whether the batch was committed. Read the store's state again.
            self._opened = None
            if committed_batch(self._store, self._task.source_id) >= due.batch.number:
                self._note = last_note(self._store)
                self._count(due, before)
                return
            left = self._arrivals.planned_anew(due.batch, error)
            if left:
                self._ingest_batch(left)
            return
        self._count(due, before)

    def _is_alone(self) -> bool:
        """Whether the run probably makes no other commit on ``messages`` than its first batch's."""
        one_look = self._task.batch_interval is None and self._task.lifecycle is None
        return one_look and not self._batches and not self._arrivals.waits()

    def _count(self, due: Due, received_before: int) -> None:
        self._batches += 1
        records = self._note.totals.received - received_before
        self._throttle.taken(records)
        self._arrivals.taken_in(due.batch, records)
        self._progress.advance(size_of(due.batch))


def waited(arrived: datetime | None, committed: datetime) -> float | None:
    """The seconds between two times, which different clocks may have told; None without the first."""
    return None if arrived is None else round(max(0.0, (committed - arrived.astimezone(UTC)).total_seconds()), 3)


def _arrivals(run: Run, task: IngestTask) -> Arrivals[Any]:
    if isinstance(task.source, KafkaSource):
        return KafkaArrivals(run, task, task.source)
    return FileArrivals(run, task, task.source)
