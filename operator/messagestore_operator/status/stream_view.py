"""The part of a stream's status for people and tools: phase, conditions and next run."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.api.messagestream_status import Lag, StreamPhase
from messagestore_operator.reasons import Reason
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
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.runs import failed, failed_as_it_is, is_final, is_past, phase_of_current
from messagestore_operator.status.stream import stored, with_unknown_lag
from messagestore_operator.status.times import clock_time
from messagestore_operator.translate.annotations import RUN_REQUESTED

_PATIENCE = timedelta(seconds=15)
"""How long a healthy stream waits for its table or a slot before its condition shows that; short waits are normal."""

_DOES = "ingests what has arrived"


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
    if trouble.reason in (Reason.TABLE_BUSY, Reason.WAITING_FOR_ROOM) and is_well and waited < _PATIENCE:
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
