"""The status of a MessageStream."""

from __future__ import annotations

from datetime import datetime

from messagestore_core.contract import run_report as contract
from messagestore_core.contract.run_report import IngestOutcome, MaintainOutcome, RunError, RunReport
from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.api.messagestream_status import (
    Lag,
    SequencesStatus,
    StreamPhase,
    StreamRun,
    StreamTotals,
    TableStatus,
)
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    conditions,
    generation,
    is_terminal,
    under_way,
    well,
)
from messagestore_operator.status.facts import StoreFacts, error_of, facts_of
from messagestore_operator.status.lifecycle import lifecycle_status
from messagestore_operator.status.loss import loss_status
from messagestore_operator.status.runs import stream_run
from messagestore_operator.status.times import ago, clock_time, message_time
from messagestore_operator.status.words import count


def stream_status(
    stream: MessageStream,
    now: datetime,
    report: RunReport | None = None,
    store: StoreFacts | None = None,
    error: RunError | None = None,
) -> MessageStreamStatus:
    """What came of a stream.

    Args:
        stream: with its status so far, if it has one.
        now: the clock.
        report: of the run that ended last; None where none has since the status was written.
        store: what the tables say; absent, what the run said of them.
        error: what kept a run from starting.
    """
    before = stream.status or MessageStreamStatus()
    store = store or facts_of(report)
    run = [stream_run(report)] if report else []
    known = _known(before, store)
    return MessageStreamStatus(
        observed_generation=generation(stream),
        conditions=conditions(stream, stream.status, _condition_values(stream, now, report, known, error), now),
        run_number=before.run_number,
        phase=_phase(stream, report, error),
        totals=known.totals,
        table=known.table,
        sequences=_sequences(report, before),
        lag=_lag(report) or before.lag,
        loss=loss_status(before.loss, report),
        lifecycle=lifecycle_status(before.lifecycle, report),
        last_run=run[0] if run else before.last_run,
        last_batch_time=known.last_batch_time,
        next_run_time=before.next_run_time,
        recent_runs=_recent(stream, run),
    )


def with_progress(before: MessageStreamStatus, report: RunReport | None, now: datetime) -> MessageStreamStatus:
    """A status with the numbers of a report, of a run under way or ended; it says when a batch was committed last.

    The report is taken for what it says of the store, never for times: its clock is another one.
    """
    outcome = report.outcome if report else None
    if isinstance(outcome, IngestOutcome):
        totals = StreamTotals(**outcome.totals.model_dump())
        more = before.totals is None or totals.received > before.totals.received
        batch = clock_time(now) if more and outcome.batches else before.last_batch_time
        news = {
            "totals": totals,
            "sequences": _sequences(report, before),
            "lag": _lag(report),
            "loss": loss_status(before.loss, report),
            "lifecycle": lifecycle_status(before.lifecycle, report),
            "last_batch_time": batch,
        }
        return before.model_copy(update={**news, "table": _table(outcome.table)})
    if isinstance(outcome, MaintainOutcome):
        return before.model_copy(update={"table": _table(outcome.table)})
    return before


def stored(status: MessageStreamStatus) -> str:
    """What is in the store, in words that change only when it does."""
    messages = status.table.messages if status.table else None
    words = f"{count(messages or 0, 'message')} stored"
    return f"{words}; last batch at {status.last_batch_time}" if status.last_batch_time else f"{words}; no batch yet"


def _known(before: MessageStreamStatus, store: StoreFacts | None) -> MessageStreamStatus:
    """Totals, table and last batch: from the store, and only where that could not be read from the status so far."""
    if store is None:
        return before
    return MessageStreamStatus(
        totals=StreamTotals(**store.totals.model_dump()),
        table=_table(store.table),
        last_batch_time=clock_time(store.last_batch_at) or before.last_batch_time,
    )


def _table(state: contract.TableState) -> TableStatus:
    return TableStatus(
        version=state.version,
        messages=state.messages,
        dead_letters=state.dead_letters,
        bytes=state.bytes,
        small_files=state.small_files,
        oldest_message_time=message_time(state.oldest_message_time),
        newest_message_time=message_time(state.newest_message_time),
        last_global_position=state.last_global_position,
    )


def _sequences(report: RunReport | None, before: MessageStreamStatus) -> SequencesStatus | None:
    if report is None or not isinstance(report.outcome, IngestOutcome):
        return before.sequences
    found = report.outcome.sequences
    if found is None:
        return None
    return SequencesStatus(
        incomplete=found.incomplete,
        overdue=found.overdue,
        oldest_time=message_time(found.oldest_time),
        oldest_id=found.oldest_id,
    )


def _lag(report: RunReport | None) -> Lag | None:
    if report is None or not isinstance(report.outcome, IngestOutcome):
        return None
    lag = report.outcome.lag
    return Lag(
        as_of=clock_time(lag.as_of),
        files=lag.files,
        records=lag.records,
        oldest_pending_time=clock_time(lag.oldest_pending_time),
        summary=count(lag.files, "file") if lag.records is None else count(lag.records, "record"),
    )


def _recent(stream: MessageStream, run: list[StreamRun]) -> tuple[StreamRun, ...]:
    before = stream.status.recent_runs if stream.status else ()
    return (*run, *before)[: stream.spec.run_history_limit]


def _phase(stream: MessageStream, report: RunReport | None, error: RunError | None) -> StreamPhase:
    found = error_of(report, error)
    if found is not None:
        return "Stalled" if is_terminal(found) else "Failing"
    if stream.spec.suspend:
        return "Suspended"
    if report is None:
        return "Pending"
    return "Running" if report.state == "Running" else "Idle"


def _condition_values(
    stream: MessageStream,
    now: datetime,
    report: RunReport | None,
    known: MessageStreamStatus,
    error: RunError | None,
) -> list[ConditionValue]:
    found = error_of(report, error)
    if found is not None:
        return after_error(found)
    if stream.spec.suspend:
        return well(Reason.SUSPENDED, "no run starts while spec.suspend is true")
    if report is None:
        return under_way(Reason.PENDING, "nothing has been taken in yet")
    return well(Reason.INGESTING, _summary(known, now))


def _summary(known: MessageStreamStatus, now: datetime) -> str:
    messages = known.table.messages if known.table else None
    stored = f"{count(messages or 0, 'message')} stored"
    last = known.last_batch_time
    return f"{stored}; last batch {ago(last.datetime, now)}" if last else f"{stored}; no batch yet"
