"""Which try a run is and when it starts, by the result of the last one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_operator.api import MessageStream, Resource, parse_resource
from messagestore_operator.api.common import Schedule
from messagestore_operator.api.status import FinishedRun, TriggeredStatus
from messagestore_operator.decide.snapshot import Defaults
from messagestore_operator.decide.trigger import Scheduled, next_attempt, next_start, retry_at, scheduled
from messagestore_operator.status.words import clock_time

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
STOPPED = {"reason": "RunStopped", "message": "told to stop"}
SETTINGS = Defaults(backoff_base=timedelta(minutes=1), backoff_max=HOUR)


def stream(**metadata: Any) -> Resource:
    document = {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "MessageStream",
        "metadata": {"name": "orders", "namespace": "default", "generation": 2, **metadata},
        "spec": {
            "table": {"uri": "s3a://lake/orders"},
            "source": {"files": {"uri": "s3a://landing/orders/"}},
            "trigger": {"manual": {}},
        },
    }
    found = parse_resource(document)
    assert isinstance(found, MessageStream)
    return found


def run(lasted: timedelta = timedelta(0), **given: Any) -> FinishedRun:
    """A third try that ended now, after this time."""
    times = {"started_at": clock_time(NOW - lasted), "finished_at": clock_time(NOW)}
    return FinishedRun(**{"name": "r3", "state": "Failed", "attempt": 3, "generation": 2, **times, **given})


@pytest.mark.parametrize(
    ("last", "attempt"),
    [
        (None, 1),
        (run(), 4),
        (run(generation=1), 1),
        (run(state="Succeeded"), 1),
        (run(state="Cancelled"), 1),
        (run(state="Cancelled", error=STOPPED), 4),
        (run(state="Cancelled", error=STOPPED, generation=1), 1),
        (run(HOUR), 4),
        (run(HOUR + timedelta(seconds=1)), 1),
        (run(2 * HOUR, started_at=None), 4),
        (run(2 * HOUR, finished_at=None), 4),
    ],
)
def test_attempts_are_counted_until_a_run_succeeds_or_outlasts_the_longest_backoff(
    last: FinishedRun | None, attempt: int
) -> None:
    assert next_attempt(last, stream(), SETTINGS) == attempt


def test_runs_that_failed_together_are_retried_at_different_times() -> None:
    times = {retry_at(run(), stream(uid=f"uid-{number}"), SETTINGS, NOW) for number in range(10)}
    assert len(times) == 10
    wait = timedelta(minutes=4)
    assert all(time is not None and NOW + wait <= time <= NOW + wait * 1.2 for time in times)


def test_an_interval_counts_from_the_start_of_a_run_whose_end_nobody_knows() -> None:
    begun = run(timedelta(minutes=2), finished_at=None)
    assert next_start(begun, HOUR, NOW) == NOW + timedelta(minutes=58)


def test_a_schedule_begins_at_the_resources_creation_or_now_if_that_is_unknown() -> None:
    hourly = Schedule(cron="0 * * * *", time_zone="UTC")
    later = NOW + timedelta(minutes=30)
    made, undated = stream(creationTimestamp="2026-01-05T07:59:00Z"), stream()
    assert scheduled(hourly, made, TriggeredStatus(), later) == Scheduled(NOW, None, NOW + HOUR)
    assert scheduled(hourly, undated, TriggeredStatus(), later) == Scheduled(None, None, NOW + HOUR)


def test_after_a_missed_time_the_schedule_continues_with_the_next() -> None:
    hourly = Schedule.model_validate({"cron": "0 * * * *", "startingDeadline": "PT10M"})
    made = stream(creationTimestamp="2026-01-05T07:59:00Z")
    later = NOW + timedelta(minutes=30)
    assert scheduled(hourly, made, TriggeredStatus(), later) == Scheduled(None, NOW, NOW + HOUR)
