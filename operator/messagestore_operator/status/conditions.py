"""Conditions as kstatus reads them.

Ready says whether all is as it was asked for. Reconciling is there while that is being worked on, Stalled when it will
not come about until somebody changes something; neither is there in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.status import BaseStatus, Condition, FinishedRun
from messagestore_operator.reasons import TERMINAL, Reason
from messagestore_operator.status.times import clock_time

Truth = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class ConditionValue:
    """One condition without its bookkeeping."""

    type: str
    status: Truth
    reason: str
    message: str


def well(reason: str, message: str) -> list[ConditionValue]:
    """All is as it was asked for."""
    return [ConditionValue("Ready", "True", reason, message)]


def under_way(reason: str, message: str) -> list[ConditionValue]:
    """It is being worked on."""
    return [ConditionValue("Ready", "False", reason, message), ConditionValue("Reconciling", "True", reason, message)]


def stuck(reason: str, message: str) -> list[ConditionValue]:
    """It won't come about until somebody changes something."""
    return [ConditionValue("Ready", "False", reason, message), ConditionValue("Stalled", "True", reason, message)]


def after_error(error: RunError) -> list[ConditionValue]:
    """It went wrong; another try may help, or not."""
    return (stuck if is_terminal(error) else under_way)(error.reason, error.message)


def after_failure(last: FinishedRun, attempt: int | None, next_try: datetime | None) -> list[ConditionValue]:
    """The last run failed; which try is under way, or when the next is, is told."""
    if last.error is None:
        return under_way(Reason.RUN_FAILED, f"run {last.name} failed")
    error = last.error
    if attempt is not None:
        return under_way(error.reason, f"{error.message}; try {attempt} is under way")
    if next_try is not None:
        return under_way(error.reason, f"{error.message}; the next try is at {clock_time(next_try)}")
    return after_error(RunError(reason=error.reason, message=error.message))


def condition_of(status: BaseStatus | None, kind: str) -> Condition | None:
    """A status's condition of a type; None where there is none, or no status yet."""
    return next((one for one in status.conditions if one.type == kind), None) if status else None


def is_terminal(error: RunError) -> bool:
    """Whether no other try helps."""
    return error.reason in TERMINAL


def conditions(
    resource: Resource, previous: BaseStatus | None, values: Iterable[ConditionValue], now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a status; one whose status did not change keeps the time of its last change."""
    before = {condition.type: condition for condition in previous.conditions} if previous else {}
    return tuple(_condition(resource, before.get(value.type), value, now) for value in values)


def _condition(resource: Resource, before: Condition | None, value: ConditionValue, now: datetime) -> Condition:
    same = before is not None and before.status == value.status
    return Condition(
        type=value.type,
        status=value.status,
        reason=str(value.reason),
        message=value.message,
        observed_generation=generation(resource),
        last_transition_time=before.last_transition_time if before is not None and same else clock_time(now),
    )


def generation(resource: Resource) -> int:
    """Which version of the spec a status is about; outside of a cluster there is only one."""
    return resource.metadata.generation or 1
