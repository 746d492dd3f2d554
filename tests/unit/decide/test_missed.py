"""A point in time of a schedule that can't be made up for."""

from datetime import UTC, datetime

from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.trigger import Scheduled, pass_over_missed
from messagestore_operator.status.words import clock_time

MISSED = datetime(2026, 1, 5, 8, tzinfo=UTC)


def test_a_missed_schedule_time_is_recorded_with_a_warning() -> None:
    status, told = pass_over_missed(Scheduled(None, MISSED, None), MessageStreamStatus(run_number=7))
    assert status == MessageStreamStatus(run_number=7, last_schedule_time=clock_time(MISSED))
    words = "the run of 2026-01-05T08:00:00Z is skipped: its starting deadline has passed"
    assert told == [EmitEvent("Warning", "ScheduleMissed", words)]


def test_without_a_missed_schedule_time_there_is_no_event() -> None:
    before = MessageStreamStatus(run_number=7)
    assert pass_over_missed(Scheduled(MISSED, None, None), before) == (before, [])
