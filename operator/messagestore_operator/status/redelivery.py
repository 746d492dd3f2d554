"""The part of the status for people and tools, for a replay with a trigger: phase, conditions and next run."""

from collections.abc import Sequence
from datetime import datetime

from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob_status import DestinationStatus, ReplayPhase
from messagestore_operator.status.conditions import (
    OF_DESTINATION,
    TERMINAL,
    ConditionValue,
    after_error,
    after_failure,
    after_lasting,
    conditions,
    ending_of,
    of_run,
    under_way,
    well,
    with_conditions,
)
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import degraded, short_destination
from messagestore_operator.status.routes import TAKES, all_stalled, degraded_by, is_of_destinations, named, of_failing
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
    changes: dict[str, object] = {
        "phase": _phase(job, status, outlook),
        "destination": short_destination(job.spec),
        "next_run_time": clock_time(outlook.next_run),
    }
    values = _condition_values(job, status, outlook)
    if job.spec.destinations:
        changes["destinations"] = named(job, status, outlook, now)
    elif job.spec.start is not None:
        changes["destinations"] = _destinations(job, status, values, now)
    return with_conditions(job, before, status.model_copy(update=changes), values, now)


def _destinations(
    job: ReplayJob, status: ReplayJobStatus, values: Sequence[ConditionValue], now: datetime
) -> tuple[DestinationStatus, ...]:
    """The destination of a subscription, with conditions of its own, as far as the runs say anything of it."""
    one, ready = status.destinations[0] if status.destinations else DestinationStatus(), values[0]
    if ready.status == "False" and ready.reason in OF_DESTINATION:
        wanted = [value for value in values if value.type in ("Ready", "Stalled")]
    elif ready.status == "True" and ready.reason == Reason.REPLAYED:
        wanted = well(Reason.REPLAYED, TAKES)
    else:
        return status.destinations
    return (one.model_copy(update={"conditions": conditions(job, one.conditions, wanted, now)}),)


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
    if job.spec.destinations and (last is None or not failed(last) or is_of_destinations(last)):
        if (values := of_failing(job, status, outlook)) is not None:
            return values
    elif (
        last is not None and failed_as_it_is(last, job) and not is_past(last, current, job) and not outlook.progressing
    ):
        return after_failure(last, current, outlook.next_run)
    if current is not None and last is not None and failed(last) and not outlook.progressing:
        return of_run(current, _DOES, last)
    if status.round is not None or last is not None:
        return [*well(Reason.REPLAYED, _sent(job, status)), *(degraded_by(job, status) or degraded(status.progress))]
    if current is not None:
        return of_run(current, _DOES)
    return well(Reason.WAITING, "no run has started yet")


def _phase(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> ReplayPhase:
    current, last = status.current_run, status.last_run
    if (phase := phase_of_current(current, outlook)) is not None:
        if (
            phase == "Running"
            and job.spec.goes_on
            and job.spec.destinations
            and of_failing(job, status, outlook) is not None
        ):
            return "Stalled" if all_stalled(job, status, outlook) else "Failing"
        return phase
    if job.spec.suspend:
        return "Paused"
    if last is not None and failed_as_it_is(last, job):
        if is_of_destinations(last):
            return "Stalled" if all_stalled(job, status, outlook) else "Failing"
        return "Stalled" if last.error is not None and last.error.reason in TERMINAL else "Failing"
    return "Idle" if current is None and outlook.trouble is None else "Pending"


def _sent(job: ReplayJob, status: ReplayJobStatus) -> str:
    """What a replay with a trigger has sent so far."""
    sent, rounds = count(status.replayed_total or 0, "message"), status.round or 0
    where = short_destination(job.spec)
    if job.spec.start is None:
        return f"{sent} sent again to {where}; {count(rounds, 'selection')} so far"
    refused = sum(one.cursor.set_aside for one in status.destinations if one.cursor)
    aside = f", {refused} refused and set aside" if refused else ""
    return f"{sent} sent to {where} in {count(rounds, 'round')} so far{aside}"
