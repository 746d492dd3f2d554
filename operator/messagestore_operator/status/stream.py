"""The status of a MessageStream: its figures, then its phase, conditions and next run."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from messagestore_core.contract import ingest as contract
from messagestore_core.contract import stores as store_contract
from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.run_report import MaintainOutcome, RunReport
from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.api.messagestream_status import (
    BatchStatus,
    Lag,
    LifecycleStatus,
    LossStatus,
    ReasonCount,
    SequencesStatus,
    StreamPhase,
    StreamTotals,
    TableStatus,
    UnfinishedMessages,
)
from messagestore_operator.names import RUN_REQUESTED
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    after_failure,
    after_lasting,
    ending_of,
    of_run,
    suspended,
    under_way,
    well,
    with_conditions,
)
from messagestore_operator.status.facts import Outlook, StoreFacts, facts_of
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import failed, failed_as_it_is, is_final, is_past, phase_of_current
from messagestore_operator.status.words import ago, clock_time, count, in_status, message_time

UNKNOWN = "unknown"
"""The lag of a stream whose source nobody lists."""

_MOST_REASONS = 10
_PATIENCE = timedelta(seconds=15)
"""How long a healthy stream waits for its table or a slot before its condition shows that; short waits are normal."""
_DOES = "ingests what has arrived"


def with_progress(before: MessageStreamStatus, report: RunReport | None, now: datetime) -> MessageStreamStatus:
    """A status with the figures of a report, of a run in progress or an ended one, and the time of the last batch.

    Times are the operator's, never the report's, which has another clock.
    """
    outcome = report.outcome if report else None
    if isinstance(outcome, IngestOutcome):
        totals = StreamTotals(**outcome.totals.model_dump())
        more = before.totals is None or totals.received > before.totals.received
        batch = clock_time(now) if more and outcome.batches else before.last_batch_time
        changes = {
            "totals": totals,
            "sequences": _sequences(outcome.sequences),
            "lag": _lag(outcome.lag),
            # The report has the sum over all runs.
            "loss": in_status(LossStatus, outcome.loss) if outcome.loss is not None else before.loss,
            "lifecycle": _lifecycle(before.lifecycle, outcome),
            "last_batch_time": batch,
            "last_batch": in_status(BatchStatus, outcome.last_batch) if outcome.last_batch else before.last_batch,
        }
        return before.model_copy(update={**changes, "table": table_status(outcome.table, before.table)})
    if isinstance(outcome, MaintainOutcome):
        return before.model_copy(update={"table": table_status(outcome.table, before.table)})
    return before


def with_newer_contents(status: MessageStreamStatus, after: Iterable[TableStatus]) -> MessageStreamStatus:
    """The status with the store's contents after the last of others' runs, if no other run has written it since.

    Each run that writes has an epoch of its own, larger than those before it.
    """
    known = status.table
    newest = max(after, key=_epoch, default=None)
    if newest is None or (known is not None and _epoch(newest) <= _epoch(known)):
        return status
    return status.model_copy(update={"table": _following(known, newest) if known else newest})


def with_store(
    before: MessageStreamStatus, report: RunReport | None, store: StoreFacts | None, now: datetime
) -> MessageStreamStatus:
    """A status with the figures of an ended run, and those of the store itself if it could be read."""
    status, store = with_progress(before, report, now), store or facts_of(report)
    if report is not None and report.state == "Succeeded":
        status = status.model_copy(update={"last_success_time": clock_time(now)})
    if store is None:
        return status
    return status.model_copy(
        update={
            "totals": StreamTotals(**store.totals.model_dump()),
            "table": table_status(store.table, before.table),
            "last_batch_time": clock_time(store.last_batch_at) or before.last_batch_time,
        }
    )


def with_unknown_lag(status: MessageStreamStatus) -> MessageStreamStatus:
    """The status of a stream whose source can't be listed now: what has arrived since the last look is unknown."""
    lag, lifecycle = status.lag, status.lifecycle
    if lag is not None:
        lag = Lag(as_of=lag.as_of, summary=UNKNOWN, source_found=lag.source_found)
    if lifecycle is not None and lifecycle.lag_summary is not None:
        lifecycle = lifecycle.model_copy(update={"lag_summary": UNKNOWN})
    return status.model_copy(update={"lag": lag, "lifecycle": lifecycle})


def stored(status: MessageStreamStatus, now: datetime | None = None) -> str:
    """The store's contents in words that change only with it; with ``now``, with the age of the last batch."""
    messages = count(status.table.messages or 0 if status.table else 0, "message")
    last = status.last_batch_time
    if last is None:
        return f"{messages} stored; no batch yet"
    return f"{messages} stored; last batch {ago(last.datetime, now) if now else f'at {last}'}"


def table_status(state: store_contract.TableState, before: TableStatus | None = None) -> TableStatus:
    """The contents of the store, in a report that follows earlier ones."""
    after = in_status(
        TableStatus,
        state,
        dead_letters_by_reason=_by_reason(state.dead_letters_by_reason or {}),
        oldest_message_time=message_time(state.oldest_message_time),
        newest_message_time=message_time(state.newest_message_time),
    )
    return _following(before, after) if before is not None else after


def _by_reason(counts: Mapping[str, int]) -> tuple[ReasonCount, ...]:
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST_REASONS]
    return tuple(ReasonCount(reason=reason, count=number) for reason, number in most)


def _following(before: TableStatus, after: TableStatus) -> TableStatus:
    """The contents, with what only earlier figures tell: the last position given, and dead letters' reasons."""
    positions = (after.last_global_position, before.last_global_position)
    last = max((position for position in positions if position is not None), default=None)
    changes: dict[str, object] = {"last_global_position": last}
    if not after.dead_letters_by_reason and after.dead_letters == before.dead_letters:
        changes["dead_letters_by_reason"] = before.dead_letters_by_reason
    return after.model_copy(update=changes)


def _epoch(table: TableStatus) -> int:
    return -1 if table.epoch is None else table.epoch


def _sequences(sequences: contract.SequenceState | None) -> SequencesStatus | None:
    if sequences is None:
        return None
    return in_status(SequencesStatus, sequences, oldest_time=message_time(sequences.oldest_time))


def _lag(lag: contract.Lag) -> Lag:
    return in_status(Lag, lag, files=lag.files if lag.records is None else None, summary=_waiting(lag))


def _waiting(lag: contract.Lag) -> str:
    return count(lag.files, "file") if lag.records is None else count(lag.records, "record")


def _lifecycle(before: LifecycleStatus | None, outcome: IngestOutcome) -> LifecycleStatus | None:
    """The report's figures. A run without changes doesn't count unfinished messages; then the earlier counts stay."""
    lifecycle = outcome.lifecycle
    if lifecycle is None:
        return before
    return in_status(
        LifecycleStatus,
        lifecycle.totals,
        pending=lifecycle.pending,
        unfinished=_unfinished(lifecycle.unfinished) or (before.unfinished if before else None),
        lag_summary=_waiting(lifecycle.lag) if lifecycle.lag else before.lag_summary if before else None,
    )


def _unfinished(by_status: Mapping[str, int] | None) -> UnfinishedMessages | None:
    if by_status is None:
        return None
    return UnfinishedMessages(**{status.lower(): messages for status, messages in by_status.items()})


def with_view(
    stream: MessageStream,
    before: MessageStreamStatus,
    status: MessageStreamStatus,
    outlook: Outlook,
    now: datetime,
    *,
    ages: bool = False,
) -> MessageStreamStatus:
    """The status with its phase and conditions.

    Args:
        status: the status with all other fields, including the current run.
        ages: whether to give the age of the last batch. In a cluster the status has its time, as the age would change
            with the clock.
    """
    unseen = _is_unseen(stream, status, outlook)
    status = with_unknown_lag(status) if unseen else status
    values = _condition_values(stream, status, outlook, now) or _of_ingesting(stream, status, now if ages else None)
    values = _with_last_listing(values, status.lag) if unseen else values
    changes = {"phase": _phase(stream, status, outlook), "next_run_time": clock_time(outlook.next_run)}
    return with_conditions(stream, before, status.model_copy(update=changes), values, now)


def _is_unseen(stream: MessageStream, status: MessageStreamStatus, outlook: Outlook) -> bool:
    """Whether nobody lists the source: no run may start, or the last one failed and this one has not got further."""
    if outlook.progressing:
        return False
    if outlook.blocker is not None:
        return True
    if status.current_run is None and (stream.spec.suspend or outlook.paused is not None):
        return True
    return failed(status.last_run)


def _with_last_listing(values: list[ConditionValue], lag: Lag | None) -> list[ConditionValue]:
    """The conditions, with the time after which it is unknown what has arrived."""
    if lag is None or lag.as_of is None:
        return values
    words = f"; what has arrived since {lag.as_of} is unknown"
    return [replace(value, message=value.message + words) for value in values]


def _of_ingesting(stream: MessageStream, status: MessageStreamStatus, now: datetime | None) -> list[ConditionValue]:
    """The conditions of a stream that ingests; with ``now``, with the age of the last batch."""
    files = stream.spec.source.files
    if files is not None and status.lag is not None and status.lag.source_found is False:
        return well(Reason.SOURCE_NOT_FOUND, f"{files.uri} doesn't exist or is empty: no file has arrived yet")
    return well(Reason.INGESTING, stored(status, now))


def _condition_values(
    stream: MessageStream, status: MessageStreamStatus, outlook: Outlook, now: datetime
) -> list[ConditionValue]:
    """The conditions; empty if the stream ingests without a problem."""
    if outlook.lasting is not None:
        return after_lasting(outlook.lasting, status.current_run, outlook.next_run)
    if outlook.blocker is not None:
        return after_error(outlook.blocker)
    if (of_current := _of_current(stream, status, outlook, now)) is not None:
        return of_current
    current, last = status.current_run, status.last_run
    if last is not None and failed(last) and not outlook.progressing:
        if current is not None and is_past(last, current, stream):
            return of_run(current, _DOES, last)
        if not failed_as_it_is(last, stream):
            return under_way(Reason.PENDING, "the last run failed; the spec has changed since, so a new run starts")
        return after_failure(last, current, outlook.next_run)
    if status.totals is None:
        return _of_beginning(stream, status, outlook)
    return []


def _of_current(
    stream: MessageStream, status: MessageStreamStatus, outlook: Outlook, now: datetime
) -> list[ConditionValue] | None:
    """The conditions if the current run or a pause decides them; None if the run just goes on."""
    current, trouble, paused = status.current_run, outlook.trouble, outlook.paused
    if stream.spec.suspend:
        return suspended(current)
    if (ending := ending_of(current)) is not None:
        return under_way(ending.reason, ending.message)
    if paused is not None and trouble is None:
        if current is None:
            return well(Reason.PAUSED, paused)
        goes_on = f"run {current.name} continues; no other run starts: {paused}"
        return (under_way if status.totals is None else well)(Reason.PAUSED, goes_on)
    if trouble is None or current is None:
        return None
    waited = now - current.requested_at.datetime if current.requested_at else _PATIENCE
    is_well = status.totals is not None and not failed(status.last_run)
    if trouble.reason in (Failure.TABLE_BUSY, Reason.WAITING_FOR_ROOM) and is_well and waited < _PATIENCE:
        return None
    return under_way(trouble.reason, trouble.message)


def _of_beginning(stream: MessageStream, status: MessageStreamStatus, outlook: Outlook) -> list[ConditionValue]:
    current = status.current_run
    if current is not None:
        return of_run(current, _DOES)
    if outlook.next_run is not None:
        return well(Reason.WAITING, f"the first run is at {clock_time(outlook.next_run)}")
    if stream.spec.trigger.manual is not None:
        return well(Reason.WAITING, f"a run starts when annotation {RUN_REQUESTED} changes")
    return under_way(Reason.PENDING, "no message has been ingested yet")


def _phase(stream: MessageStream, status: MessageStreamStatus, outlook: Outlook) -> StreamPhase:
    current, last = status.current_run, status.last_run
    if (phase := phase_of_current(current, outlook)) is not None:
        return phase
    if stream.spec.suspend:
        return "Suspended"
    if last is not None and failed_as_it_is(last, stream):
        return "Stalled" if is_final(last, stream) else "Failing"
    if current is not None or (last is None and not _waits(stream, outlook)):
        return "Pending"
    return "Idle"


def _waits(stream: MessageStream, outlook: Outlook) -> bool:
    """Whether nothing is due before the trigger's next time, or a request."""
    return outlook.next_run is not None or stream.spec.trigger.manual is not None
