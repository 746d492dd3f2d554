"""What becomes of a point in time of a schedule that came too late to be made up for: it is put behind, and told."""

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
    """The same of a trigger, which may have no schedule, and passes over nothing while it is suspended."""
    if schedule is None or suspended:
        return status, []
    return pass_over_missed(scheduled(schedule, resource, status, now), status)


def pass_over_missed(times: Scheduled, status: Status) -> tuple[Status, list[EmitEvent]]:
    """The status, and what is told, once the point that was missed is behind; nothing where none was."""
    if times.missed is None:
        return status, []
    words = f"the run of {clock_time(times.missed)} is skipped: its starting deadline has passed"
    skipped = status.model_copy(update={"last_schedule_time": clock_time(times.missed)})
    return skipped, [EmitEvent("Warning", Reason.SCHEDULE_MISSED, words)]
