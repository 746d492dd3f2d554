"""The part of an ingest run after its messages: batches of status updates, expiry and timeouts.

A batch first writes dead letters, then updates that wait for their message; its commit on ``messages`` ends it.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.clock import now, shifted
from messagestore_core.contract.ingest import IngestTask, Lifecycle, LifecycleOutcome, Memory, UpdateCounts
from messagestore_core.store.batches import batch_id
from messagestore_core.store.dead_letters import dead_letter_keys, set_aside_before
from messagestore_core.store.delta_log import (
    FIRST_OPEN,
    CommitNote,
    committed_batch,
    is_any_due,
    may_be_processing,
    next_expiry,
    next_global_position,
)
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_core.store.pending_updates import count_pending, forget_waiting, let_wait, read_pending
from messagestore_core.store.schemas import PENDING_UPDATES, UTC
from messagestore_jobs.context import Run
from messagestore_jobs.index.keys import Flags
from messagestore_jobs.lifecycle.commit import (
    COLUMNS,
    LifecycleRun,
    commit,
    ending,
    folded,
    message_of,
    still_unknown,
    without_erased,
)
from messagestore_jobs.lifecycle.history import append_history
from messagestore_jobs.lifecycle.transitions import Folded, Update, fold
from messagestore_jobs.lifecycle.updates import read_updates, set_aside_once, source_of, to_dead_letters
from messagestore_jobs.lifecycle.waiting import apply_waiting, was_interrupted
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_messages, table_to_change
from messagestore_jobs.source.arrivals import Arrivals, Due, size_of, to_repeat
from messagestore_jobs.source.records import Planned, read_planned

BATCH_BYTES = 64 << 20
BATCH_RECORDS = 250_000
"""Limits of a batch, as the driver holds all of its updates."""
_PENDING_FOR = timedelta(days=1)
_STEP = "lifecycle-unanswered"
_EXPIRED = "lifecycle-expired"
"""The transactions on ``messages`` whose versions are the last committed steps of what nobody answered, and expired."""


def updates_task(task: IngestTask) -> IngestTask | None:
    """The task changed to read the source of updates; None without such a source."""
    if task.lifecycle is None:
        return None
    memory = Memory(batch_bytes=BATCH_BYTES, batch_records=BATCH_RECORDS)
    own = {"source_id": task.lifecycle.source_id, "source": task.lifecycle.source, "memory": memory}
    return task.model_copy(update=own)


class LifecycleWork:
    """The lifecycle work of one run. If there is nothing to do, it only reads logs and lists the source.

    Args:
        arrivals: for ``updates_task``, if there is one.
        first: the note of the last commit before the run.
        days_of: gives the days on which messages with these ids were inserted.
        purged: tells which of the ids are remembered as purged at a time.
    """

    def __init__(
        self,
        run: Run,
        task: IngestTask,
        arrivals: Arrivals[Any] | None,
        first: CommitNote,
        days_of: Callable[[pa.Array], list[date]],
        purged: Callable[[pa.Array, datetime], Flags],
    ) -> None:
        self._document, self._progress, self._first = run.document, run.progress, first
        self._context = LifecycleRun(run.spark, run.run, run.store, task.retry, run.document.resource, days_of, purged)
        self._pending_for = task.lifecycle.pending_for if task.lifecycle else _PENDING_FOR
        self._processing_timeout = task.lifecycle.processing_timeout if task.lifecycle else None
        self._arrivals = arrivals
        self._time_unit = task.lifecycle.time_unit if task.lifecycle else None
        self._unfinished: dict[str, int] | None = None
        self._counted_at = first

    def finish(self, note: CommitNote) -> CommitNote:
        """Repeat what broke off in an earlier run, before new messages; return the note of the last commit."""
        if not self._is_used(note):
            return note
        due = to_repeat(self._arrivals, self._forget_waiting) if self._arrivals else None
        if due:
            note = self._ingest_batch(due, note)
        return self._apply_waiting(note) if was_interrupted(self._context.store) else note

    def go_on(self, note: CommitNote, stopped: Callable[[], bool]) -> CommitNote:
        """Apply what has arrived, batch by batch until stopped; return the note of the last commit."""
        if self._is_used(note):
            note = self._apply_waiting(note)
        if self._arrivals is not None:
            self._arrivals.list_source()
            if self._arrivals.waits():
                self._progress.step("updates", self._arrivals.size())
            while self._arrivals.waits() and not stopped():
                note = self._ingest_batch(self._arrivals.next(), note)
        note = _expire_due(self._context, now(self._document), note)
        if self._processing_timeout is not None:
            note = _fail_unanswered(self._context, now(self._document), self._processing_timeout, note)
        if self._is_used(note) and note != self._counted_at:
            self._unfinished, self._counted_at = _count_open(self._context), note
        return note

    def outcome(self, note: CommitNote) -> LifecycleOutcome | None:
        """What the run did, and what is left to do; None if the store has no updates and nothing expired."""
        if not self._is_used(note):
            return None
        return LifecycleOutcome(
            counts=note.updates - self._first.updates,
            totals=note.updates,
            pending=count_pending(self._context.store),
            lag=self._arrivals.lag() if self._arrivals else None,
            unfinished=self._unfinished,
        )

    def left_out(self) -> RunFailedError | None:
        """Why something in the source of updates can never be read; None: nothing."""
        return self._arrivals.left_out() if self._arrivals else None

    def _is_used(self, note: CommitNote) -> bool:
        """Whether there is a source of updates, or any update or expiry has been counted."""
        return self._arrivals is not None or note.updates != UpdateCounts()

    def _apply_waiting(self, note: CommitNote) -> CommitNote:
        return apply_waiting(self._context, now(self._document), self._pending_for, note)

    def _forget_waiting(self, batch: Planned) -> None:
        assert self._arrivals is not None
        forget_waiting(self._context.store, self._arrivals.task.source_id, batch.number)

    def _ingest_batch(self, due: Due, note: CommitNote) -> CommitNote:
        """Apply one batch, without what turns out to be gone."""
        assert self._arrivals is not None
        try:
            planned, _ = read_planned(self._context.spark, self._arrivals.task, due.batch)
            records = read_updates(planned, self._time_unit).toArrow()
        except (PySparkException, Py4JJavaError) as error:
            # The source of updates that an earlier try let wait may be gone; the next try writes those that are left.
            self._forget_waiting(due.batch)
            left = self._arrivals.planned_anew(due.batch, error)
            return self._ingest_batch(left, note) if left else note
        in_order = records.sort_by([("part", "ascending"), ("row", "ascending")])
        self._arrivals.note_cut(due.batch, set(records.filter(pc.field("cut"))["uri"].to_pylist()))
        note = ingest_updates(self._context, self._arrivals.task.source_id, due, in_order, note)
        self._progress.advance(size_of(due.batch))
        return note


def ingest_updates(context: LifecycleRun, source_id: str, due: Due, records: pa.Table, note: CommitNote) -> CommitNote:
    """Apply one batch of ``read_updates``, in order of arrival, after the last note; return the note of its commit."""
    bad = records.filter(pc.is_valid(records["reason"]))
    set_aside, gone = _set_aside(context, source_id, due, bad)
    updates = records.filter(pc.is_null(records["reason"]))
    last = next_global_position(context.store) - 1
    result = folded(context, updates, due.batch.at)
    unknown = updates.take(pa.array(still_unknown(context, result, updates, due.batch.at), pa.int64()))
    waiting = without_erased(context, unknown)
    # An earlier try may have let updates wait whose messages have come by now.
    if waiting.num_rows or (due.read_before and count_pending(context.store)):
        let_wait(context.store, _pending(waiting, source_id, due, last), source_id, due.batch.number)
    counts = UpdateCounts(
        received=records.num_rows + gone,
        applied=result.applied,
        # Dead letters of earlier batches and updates of erased or purged messages count as stale too.
        stale=records.num_rows - result.applied - set_aside - waiting.num_rows,
        dead_lettered=set_aside + gone,
        exhausted=len(result.exhausted),
        retried=result.retried,
    )
    step = (source_id, due.batch.number)
    return commit(context, result, updates, due.batch.at, step, context.noted(note, counts))


def _set_aside(context: LifecycleRun, source_id: str, due: Due, bad: pa.Table) -> tuple[int, int]:
    """How many of the batch's records are its dead letters, and how many such records the source no longer has."""
    own = batch_id(source_id, due.batch.number)
    dead_letters = to_dead_letters(bad, source_of(bad), due.batch.at, own)
    set_aside = set_aside_once(context.store, dead_letters, own, due.read_before)
    return set_aside, _gone(context.store, dead_letters, own, due.read_before) if due.repeated else 0


def _gone(store: Store, dead_letters: pa.Table, batch: str, uris: set[str]) -> int:
    known = set_aside_before(store, uris)
    return len({key for key, by in known.items() if by == batch} - set(dead_letter_keys(dead_letters)))


def _pending(waiting: pa.Table, source_id: str, due: Due, last_global_position: int) -> pa.Table:
    """Rows of PENDING_UPDATES."""
    rows = waiting.num_rows
    columns = {name: waiting[name] for name in ("message_id", "status", "result", "error", "time", "attempt", "raw")}
    columns |= {
        "received_at": pa.repeat(pa.scalar(due.batch.at, UTC), rows),
        "source": source_of(waiting),
        "after": pa.repeat(pa.scalar(last_global_position), rows),
        "source_id": pa.repeat(pa.scalar(source_id), rows),
        "batch": pa.repeat(pa.scalar(due.batch.number), rows),
        "row": pa.array(range(rows), pa.int64()),
        "taken": pa.nulls(rows, pa.int64()),
    }
    return pa.table({name: columns[name] for name in PENDING_UPDATES.names}).cast(PENDING_UPDATES)


def due_at(store: Store, lifecycle: Lifecycle | None, at: datetime) -> datetime | None:
    """When time alone gives a run something to do with what is in a store after a run at a time; None: never."""
    times = [next_expiry(store)]
    if count_pending(store):
        pending_for = lifecycle.pending_for if lifecycle else _PENDING_FOR
        times.append(shifted(pc.min(read_pending(store)["received_at"]).as_py(), pending_for))
    if lifecycle is not None and lifecycle.processing_timeout is not None and may_be_processing(store):
        # Only the messages tell since when.
        times.append(at)
    return min((time for time in times if time is not None), default=None)


def _is_open() -> Column:
    """Whether a message's status is not terminal."""
    retried = (F.col("status") == "FAILED") & F.col("next_retry_at").isNotNull()
    return (F.col("status") >= FIRST_OPEN) & (F.col("status").isin("RECEIVED", "PROCESSING") | retried)


def _expire_due(context: LifecycleRun, at: datetime, note: CommitNote) -> CommitNote:
    """Expire due messages in one commit; return its note. If no file can have any, only the log is read."""
    if not is_any_due(context.store, at):
        return note
    due = (F.col("expires_at") <= instant(at)) & _is_open()
    messages = read_messages(context.spark, context.store).where(due)
    count = messages.count()
    if not count:
        return note
    step = (_EXPIRED, committed_batch(context.store, _EXPIRED) + 1)
    append_history(context.spark, context.store, messages, "EXPIRED", step, context.run, at)
    note = context.noted(note, UpdateCounts(expired=count))
    with ending(context.spark, context.store, "expire", step, note):
        table_to_change(context.spark, context.store, "messages").update(
            due, {"status": F.lit("EXPIRED"), "next_retry_at": F.lit(None), "updated_at": instant(at)}
        )
    return note


def _count_open(context: LifecycleRun) -> dict[str, int]:
    """How many messages are open, by status; files without any are not read."""
    counted = read_messages(context.spark, context.store).where(_is_open()).groupBy("status").count().collect()
    return {row["status"]: row["count"] for row in sorted(counted)}


def _fail_unanswered(context: LifecycleRun, at: datetime, timeout: timedelta, note: CommitNote) -> CommitNote:
    """Fail messages that are PROCESSING for longer than the timeout; return the note of the last commit.

    Each step has its own commit, so that a step that broke off is repeated, and counted once.
    """
    while (due := _due(context, at, timeout)).changes:
        step = (_STEP, committed_batch(context.store, _STEP) + 1)
        count = len(due.changes)
        words = f"no update came within {timeout.total_seconds():g} seconds"
        updates = pa.table({"result": pa.nulls(count, pa.binary()), "error": pa.repeat(pa.scalar(words), count)})
        counts = UpdateCounts(timed_out=count, exhausted=len(due.exhausted))
        note = commit(context, due, updates, at, step, context.noted(note, counts))
    return note


def _due(context: LifecycleRun, at: datetime, timeout: timedelta) -> Folded:
    since = F.coalesce("updated_at", "inserted_at")
    unanswered = (F.col("status") == "PROCESSING") & (since <= instant(shifted(at, -timeout)))
    rows = read_messages(context.spark, context.store).where(unanswered).select(*COLUMNS)
    due = rows.orderBy("global_position").limit(BATCH_RECORDS).toArrow().to_pylist()
    # By position, as several messages may have the same id.
    messages = {str(row["global_position"]): message_of(row) for row in due}
    return fold([(position, Update("FAILED")) for position in messages], messages, context.retry, at)
