"""Several destinations of a subscription: how far each is, why it failed, and what that means for the resource."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import DestinationState
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob_status import (
    CursorStatus,
    DestinationFailure,
    DestinationStatus,
    SubscriptionLag,
)
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import CurrentRun, FinishedRun
from messagestore_operator.status.conditions import (
    TERMINAL,
    ConditionValue,
    conditions,
    generation,
    stuck,
    under_way,
    well,
)
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.words import clock_time, few, in_status

TAKES = "the destination takes what is sent"


def with_states(
    before: Iterable[DestinationStatus],
    states: Iterable[DestinationState],
    ended: FinishedRun | None = None,
    current: CurrentRun | None = None,
) -> tuple[DestinationStatus, ...]:
    """The destinations after a report of a run, ``current`` or ``ended``. Those it didn't try stay."""
    known = {one.name: one for one in before}
    for state in states:
        one, changes = known.get(state.name, DestinationStatus(name=state.name)), dict[str, object]()
        if state.cursor is not None:
            changes["cursor"] = in_status(CursorStatus, state.cursor)
            changes["lag"] = in_status(SubscriptionLag, state.cursor.lag)
        run = ended or current
        if state.going_on is not None:
            # The run has tried it again by itself, and tells how often.
            changes["failure"] = _failing(one.failure, state, run.generation if run is not None else None)
        elif ended is not None:
            changes["failure"] = _failure(one.failure, state.error, ended)
        known[state.name] = one.model_copy(update=changes)
    return tuple(known.values())


def _failing(
    before: DestinationFailure | None, state: DestinationState, of_generation: int | None
) -> DestinationFailure | None:
    tried = state.going_on
    if state.error is None or tried is None or tried.since is None or tried.last_try is None:
        return None
    return DestinationFailure(
        reason=state.error.reason,
        message=state.error.message,
        since=Time.of(tried.since),
        last_attempt_time=Time.of(tried.last_try),
        attempts=tried.tries,
        generation=of_generation,
        retry_requested=before is not None and before.retry_requested,
    )


def _failure(
    before: DestinationFailure | None, error: RunError | None, ended: FinishedRun
) -> DestinationFailure | None:
    if error is None or ended.finished_at is None:
        return None
    if before is None or before.generation != ended.generation:
        before = None
    same = before is not None and before.reason == error.reason
    return DestinationFailure(
        reason=error.reason,
        message=error.message,
        since=before.since if before is not None and same else ended.finished_at,
        last_attempt_time=ended.finished_at,
        attempts=(before.attempts if before is not None else 0) + 1,
        generation=ended.generation,
    )


def failing(job: ReplayJob, status: ReplayJobStatus) -> dict[str, DestinationFailure]:
    """The destinations whose last try failed with the present spec, each with its failure."""
    names, now = {to.name for to in job.spec.destinations}, generation(job)
    return {
        one.name: one.failure
        for one in status.destinations
        if one.name in names and one.failure is not None and one.failure.generation == now
    }


def failed_before(job: ReplayJob, status: ReplayJobStatus) -> bool:
    """Whether the last try of a destination failed with an earlier spec."""
    names, now = {to.name for to in job.spec.destinations}, generation(job)
    return any(one.name in names and one.failure and one.failure.generation != now for one in status.destinations)


def is_of_destinations(run: FinishedRun | None) -> bool:
    """Whether a run failed because all destinations did."""
    return run is not None and run.error is not None and run.error.reason == Failure.DESTINATIONS_FAILED


def all_stalled(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> bool:
    """Whether only a change by somebody helps any destination."""
    failures = failing(job, status)
    return len(failures) == len(job.spec.destinations) and all(
        _is_stalled(name, failure, outlook) for name, failure in failures.items()
    )


def of_failing(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook) -> list[ConditionValue] | None:
    """The conditions of the resource if all destinations fail; None if one takes what is sent."""
    failures = failing(job, status)
    if len(failures) < len(job.spec.destinations):
        return None
    state = stuck if all_stalled(job, status, outlook) else under_way
    return state(Failure.DESTINATIONS_FAILED, f"no destination takes what is sent: {_said(failures)}")


def degraded_by(job: ReplayJob, status: ReplayJobStatus) -> list[ConditionValue]:
    """The condition of a resource of which some destinations fail."""
    if not (failures := failing(job, status)):
        return []
    words = f"{len(failures)} of {len(job.spec.destinations)} destinations fail: {_said(failures)}"
    return [ConditionValue("Degraded", "True", Failure.DESTINATIONS_FAILED, words)]


def named(job: ReplayJob, status: ReplayJobStatus, outlook: Outlook, now: datetime) -> tuple[DestinationStatus, ...]:
    """The destinations of the spec, in its order, with their conditions."""
    known = {one.name: one for one in status.destinations}
    failures = failing(job, status)
    ones = [known.get(to.name, DestinationStatus(name=to.name)) for to in job.spec.destinations]
    return tuple(
        one.model_copy(update={"conditions": conditions(job, one.conditions, values, now)}) if values else one
        for one in ones
        for values in [_values(one, failures.get(one.name), outlook)]
    )


def _values(one: DestinationStatus, failure: DestinationFailure | None, outlook: Outlook) -> Sequence[ConditionValue]:
    if failure is None:
        # One that failed with an earlier spec, or was not tried yet, says nothing new.
        return well(Reason.REPLAYED, TAKES) if one.cursor is not None and one.failure is None else ()
    at = outlook.next_tries.get(one.name)
    then = f"; the next try is at {clock_time(at)}" if at is not None else ""
    state = stuck if _is_stalled(one.name, failure, outlook) else under_way
    return state(failure.reason, f"{failure.message}{then}")


def _is_stalled(name: str, failure: DestinationFailure, outlook: Outlook) -> bool:
    return name in outlook.stalled or failure.reason in TERMINAL


def _said(failures: dict[str, DestinationFailure]) -> str:
    return few([f"{name}: {failure.reason}: {failure.message}" for name, failure in failures.items()])
