"""Skips a scheduled time that is past its starting deadline, and sends an Event about it."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from messagestore_operator.api import Resource
from messagestore_operator.api.common import Schedule
from messagestore_operator.api.status import TriggeredStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.trigger import Scheduled, scheduled
from messagestore_operator.reasons import Reason
from messagestore_operator.status.times import clock_time

Status = TypeVar("Status", bound=TriggeredStatus)


def without_missed(
    schedule: Schedule | None, resource: Resource, status: Status, now: datetime, *, suspended: bool
) -> tuple[Status, list[EmitEvent]]:
    """As ``pass_over_missed``, for a trigger that may have no schedule; a suspended one skips nothing."""
    if schedule is None or suspended:
        return status, []
    return pass_over_missed(scheduled(schedule, resource, status, now), status)


def pass_over_missed(times: Scheduled, status: Status) -> tuple[Status, list[EmitEvent]]:
    """The status after the missed scheduled time, and an Event about it; unchanged if none was missed."""
    if times.missed is None:
        return status, []
    words = f"the run of {clock_time(times.missed)} is skipped: its starting deadline has passed"
    skipped = status.model_copy(update={"last_schedule_time": clock_time(times.missed)})
    return skipped, [EmitEvent("Warning", Reason.SCHEDULE_MISSED, words)]
