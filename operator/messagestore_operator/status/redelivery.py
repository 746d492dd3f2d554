"""The part of the status for people and tools, for a replay with a trigger: phase, conditions and next run."""

from __future__ import annotations

from datetime import datetime

from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob_status import ReplayPhase
from messagestore_operator.status.conditions import (
    TERMINAL,
    ConditionValue,
    after_error,
    after_failure,
    after_lasting,
    ending_of,
    of_run,
    under_way,
    well,
    with_conditions,
)
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import degraded, short_destination
from messagestore_operator.status.runs import failed, failed_as_it_is, is_past, phase_of_current
from messagestore_operator.status.words import clock_time, count

_DOES = "sends what is due"


def with_view(
    job: ReplayJob, before: ReplayJobStatus, status: ReplayJobStatus, outlook: Outlook, now: datetime
) -> ReplayJobStatus:
    """The status with its phase and conditions.

    Args:
        job: the resource, with a trigger.
        status: the status with all other fields, including the current run.
    """
    changes = {
        "phase": _phase(job, status, outlook),
        "destination": short_destination(job.spec.destination),
        "next_run_time": clock_time(outlook.next_run),
    }
    values = _condition_values(job, status, outlook)
    return with_conditions(job, before, status.model_copy(update=changes), values, now)


def _condition_values(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> list[ConditionValue]:
    current = status.current_run
    if job.metadata.deletion_timestamp is not None:
        return under_way(Reason.DELETING, "the ReplayJob is being deleted")
    if outlook.lasting is not None:
        return after_lasting(outlook.lasting, current, outlook.next_run)
    if outlook.blocker is not None:
        return after_error(outlook.blocker)
    if (ending := ending_of(current)) is not None:
        return under_way(ending.reason, ending.message)
    if job.spec.suspend:
        return well(Reason.SUSPENDED, "nothing is sent while spec.suspend is true")
    if outlook.trouble is not None:
        state = well if outlook.trouble.reason == Reason.PAUSED else under_way
        return state(outlook.trouble.reason, outlook.trouble.message)
    return _of_runs(job, status, outlook)


def _of_runs(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> list[ConditionValue]:
    """The conditions if only the runs decide them: the last one, the one in progress, and what was sent so far."""
    current, last = status.current_run, status.last_run
    if last is not None and failed_as_it_is(last, job) and not is_past(last, current, job):
        return after_failure(last, current, outlook.next_run)
    if current is not None and last is not None and failed(last):
        return of_run(current, _DOES, last)
    if status.round is not None or last is not None:
        sent = _redelivered(job, status.redelivered or 0, status.round or 0)
        return [*well(Reason.REPLAYED, sent), *degraded(status.progress)]
    if current is not None:
        return of_run(current, _DOES)
    return well(Reason.WAITING, "no run has started yet")


def _phase(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> ReplayPhase:
    current, last = status.current_run, status.last_run
    if (phase := phase_of_current(current, outlook)) is not None:
        return phase
    if job.spec.suspend:
        return "Paused"
    if last is not None and failed_as_it_is(last, job):
        return "Stalled" if last.error is not None and last.error.reason in TERMINAL else "Failing"
    return "Idle" if current is None and outlook.trouble is None else "Pending"


def _redelivered(job: ReplayJob, messages: int, rounds: int) -> str:
    """What a replay with a trigger has sent so far."""
    where = short_destination(job.spec.destination)
    if job.spec.start is not None:
        return f"{count(messages, 'message')} sent to {where} in {count(rounds, 'round')} so far"
    return f"{count(messages, 'message')} sent again to {where}; {count(rounds, 'selection')} so far"
