"""Conditions that kstatus understands.

Ready is True if the spec is fulfilled. Reconciling is present while the operator works towards that, Stalled when only
a change by somebody can help; otherwise neither is present.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from messagestore_core.contract.base import RunError
from messagestore_core.text import clipped
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.status import LONGEST_NOTE, BaseStatus, Condition, CurrentRun, FinishedRun
from messagestore_operator.api.status import RunError as StatusError
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.words import clock_time

TERMINAL = frozenset(
    {
        Failure.ARCHIVE_TAKEN,
        Failure.CURSOR_AHEAD,
        Failure.CURSOR_OF_ANOTHER,
        Failure.CURSOR_UNKNOWN,
        Failure.DESTINATION_NOT_EMPTY,
        Reason.FOLDERS_OVERLAP,
        Failure.INVALID_SPEC,
        Failure.MESSAGES_BROKEN,
        Failure.MESSAGES_LOST,
        Failure.MISSING_KEY,
        Reason.NOT_ALLOWED,
        Reason.NOT_SUPPORTED,
        Failure.OBJECTS_MISSING,
        Failure.PREDICATE_REFUSED,
        Failure.REPLAY_CHANGED,
        Failure.ROUTE_UNDECIDED,
        Failure.TABLE_REFUSED,
        Failure.TOPIC_REFUSED,
        Failure.TOPIC_REPLACED,
    }
)
"""No retry helps: somebody must change something first."""

LASTING = frozenset(
    {
        Failure.HTTP_ADDRESS_FORBIDDEN,
        Failure.HTTP_DENIED,
        Failure.HTTP_REFUSED,
        Failure.KAFKA_DENIED,
        Reason.SECRET_MISSING,
        Failure.SEQUENCES_WAIT,
        Failure.STORAGE_DENIED,
        Failure.STORAGE_MISSING,
        Failure.TOPIC_MISSING,
    }
)
"""Retries go on, because the remedy is outside of the resource. After ``runs.stalledAfter`` it is Stalled."""

OUTAGES = frozenset({Failure.HTTP_UNREACHABLE, Failure.KAFKA_UNREACHABLE, Failure.STORAGE_UNREACHABLE})
"""The other side doesn't answer; nobody need change anything."""

OF_DESTINATION = frozenset(
    {
        Failure.CURSOR_AHEAD,
        Failure.CURSOR_UNKNOWN,
        Failure.DESTINATION_NOT_EMPTY,
        Failure.HTTP_ADDRESS_FORBIDDEN,
        Failure.HTTP_DENIED,
        Failure.HTTP_REFUSED,
        Failure.HTTP_UNREACHABLE,
        Failure.KAFKA_DENIED,
        Failure.KAFKA_UNREACHABLE,
        Failure.OBJECTS_MISSING,
        Failure.RECORD_TOO_LARGE,
        Failure.TOPIC_MISSING,
        Failure.TOPIC_REFUSED,
        Failure.TOPIC_REPLACED,
        Failure.TOPIC_UNFIT,
    }
)
"""What a replay's destination refuses or lacks, so that it may concern that one alone."""

LOST = frozenset({Reason.DRIVER_LOST, Reason.EVICTED, Reason.RUN_LOST})
"""A run's pods or its application were taken away, which says nothing about the run after it."""

CANCELLED = frozenset({Reason.SPEC_CHANGED, Reason.SUSPENDED, Reason.DELETING})
"""Why the operator ends runs that did nothing wrong; these don't count as failures."""

Truth = Literal["True", "False", "Unknown"]
AnyStatus = TypeVar("AnyStatus", bound=BaseStatus)


@dataclass(frozen=True)
class ConditionValue:
    """One condition without its bookkeeping."""

    type: str
    status: Truth
    reason: str
    message: str


def well(reason: str, message: str) -> list[ConditionValue]:
    """Conditions if the spec is fulfilled."""
    return [ConditionValue("Ready", "True", reason, message)]


def under_way(reason: str, message: str) -> list[ConditionValue]:
    """Conditions while the operator works towards the spec."""
    return [ConditionValue("Ready", "False", reason, message), ConditionValue("Reconciling", "True", reason, message)]


def stuck(reason: str, message: str) -> list[ConditionValue]:
    """Conditions if only a change by somebody helps."""
    return [ConditionValue("Ready", "False", reason, message), ConditionValue("Stalled", "True", reason, message)]


def of_run(current: CurrentRun, does: str, before: FinishedRun | None = None) -> list[ConditionValue]:
    """Conditions while only the run in progress counts; the message says why the run before it failed, if it did."""
    works = current.state == "Running"
    words = f"run {current.name} {does}" if works else f"run {current.name} is being started"
    after = f"; run {before.name} failed: {before.error.message}" if before is not None and before.error else ""
    return under_way(Reason.RUNNING if works else Reason.PENDING, words + after)


def after_error(error: RunError) -> list[ConditionValue]:
    """Conditions after an error: stalled if it is terminal, else reconciling."""
    return (stuck if error.reason in TERMINAL else under_way)(error.reason, error.message)


def after_failure(last: FinishedRun, current: CurrentRun | None, next_try: datetime | None) -> list[ConditionValue]:
    """Conditions after the last run failed; the message names the current try, or the time of the next."""
    if last.error is None:
        return under_way(Failure.RUN_FAILED, f"run {last.name} failed")
    error = failure_of(last.error, current, next_try)
    return after_error(error) if current is None and next_try is None else under_way(error.reason, error.message)


def after_lasting(error: RunError, current: CurrentRun | None, next_try: datetime | None) -> list[ConditionValue]:
    """Conditions of a resource that is stalled by a lasting failure while tries go on."""
    failure = failure_of(error, current, next_try)
    return stuck(failure.reason, failure.message)


def failure_of(error: RunError | StatusError, current: CurrentRun | None, next_try: datetime | None) -> RunError:
    """Why the last run failed, with the current try or the time of the next."""
    then = ""
    if current is not None:
        then = f"; try {current.attempt} is under way"
    elif next_try is not None:
        then = f"; the next try is at {clock_time(next_try)}"
    return RunError(reason=error.reason, message=f"{error.message}{then}")


def ending_of(current: CurrentRun | None) -> RunError | None:
    """Why the operator is ending the current run; None if it isn't."""
    if current is None or current.ending is None:
        return None
    return RunError(
        reason=current.ending.reason, message=f"run {current.name} is being ended: {current.ending.message}"
    )


def suspended(current: CurrentRun | None) -> list[ConditionValue]:
    """Conditions of a suspended resource; a run in progress is not stopped."""
    if current is None:
        return well(Reason.SUSPENDED, "no run starts while spec.suspend is true")
    return under_way(
        Reason.SUSPENDED, f"run {current.name} runs to its end; no other run starts while spec.suspend is true"
    )


def condition_of(status: BaseStatus | None, kind: str) -> Condition | None:
    """A status' condition of a type; None if there is none, or no status yet."""
    return next((one for one in status.conditions if one.type == kind), None) if status else None


def with_conditions(
    resource: Resource, before: AnyStatus, status: AnyStatus, values: Iterable[ConditionValue], now: datetime
) -> AnyStatus:
    """The status with conditions, for the resource's present generation."""
    changes = {
        "observed_generation": generation(resource),
        "conditions": conditions(resource, before.conditions, values, now),
    }
    return status.model_copy(update=changes)


def conditions(
    resource: Resource, previous: Iterable[Condition], values: Iterable[ConditionValue], now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a status; those whose status did not change keep the time of their last change."""
    before = {condition.type: condition for condition in previous}
    return tuple(_condition(resource, before.get(value.type), value, now) for value in values)


def _condition(resource: Resource, before: Condition | None, value: ConditionValue, now: datetime) -> Condition:
    same = before is not None and before.status == value.status
    return Condition(
        type=value.type,
        status=value.status,
        reason=str(value.reason),
        # It may repeat a long annotation or spec.
        message=clipped(value.message, LONGEST_NOTE),
        observed_generation=generation(resource),
        last_transition_time=before.last_transition_time if before is not None and same else clock_time(now),
    )


def generation(resource: Resource) -> int:
    """The generation of the spec that a status is about; always 1 outside a cluster."""
    return resource.metadata.generation or 1
