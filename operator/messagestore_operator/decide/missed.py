"""What becomes of a point in time of a schedule that came too late to be made up for: it is put behind, and told."""

from __future__ import annotations

from typing import TypeVar

from messagestore_operator.api.status import TriggeredStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.trigger import Scheduled
from messagestore_operator.reasons import Reason
from messagestore_operator.status.times import clock_time

Status = TypeVar("Status", bound=TriggeredStatus)


def pass_over_missed(times: Scheduled, status: Status) -> tuple[Status, list[EmitEvent]]:
    """The status, and what is told, once the point that was missed is behind; nothing where none was."""
    if times.missed is None:
        return status, []
    words = f"the run of {clock_time(times.missed)} is skipped: its starting deadline has passed"
    skipped = status.model_copy(update={"last_schedule_time": clock_time(times.missed)})
    return skipped, [EmitEvent("Warning", Reason.SCHEDULE_MISSED, words)]
