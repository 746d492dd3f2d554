"""Schedules over changes of daylight saving time, backoff, and the order in which runs get a table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.leases import Busy, Granted, grant, is_abandoned, is_left_over, next_epoch
from messagestore_operator.decide.schedule import is_too_late, latest_time, next_time
from messagestore_operator.decide.snapshot import (
    AppState,
    Defaults,
    DriverPod,
    LeaseRequest,
    ObservedRun,
    RunRef,
    TableKey,
    TableLease,
)
from messagestore_operator.decide.trigger import backoff, jitter_of

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}:00Z")


def schedule(cron: str, zone: str = "UTC", **more: str) -> Schedule:
    return Schedule.model_validate({"cron": cron, "timeZone": zone, **more})


NEXT = [
    ("0 9 * * *", "UTC", "2026-01-05T08:59", "2026-01-05T09:00"),
    ("0 9 * * *", "UTC", "2026-01-05T09:00", "2026-01-06T09:00"),
    ("0 9 * * *", "Europe/Vienna", "2026-03-28T08:30", "2026-03-29T07:00"),
    # The clock goes forward: there is no half past two, and its run is not lost.
    ("30 2 * * *", "Europe/Vienna", "2026-03-28T12:00", "2026-03-29T01:00"),
    # The clock goes back: half past two comes twice, and its run starts once; an hourly run still starts every hour.
    ("30 2 * * *", "Europe/Vienna", "2026-10-25T00:30", "2026-10-26T01:30"),
    ("30 * * * *", "Europe/Vienna", "2026-10-25T00:30", "2026-10-25T01:30"),
    ("0 0 29 2 *", "UTC", "2026-01-01T00:00", "2028-02-29T00:00"),
    ("*/10 * * * *", "Asia/Kolkata", "2026-01-05T08:01", "2026-01-05T08:10"),
]


@pytest.mark.parametrize(("cron", "zone", "after", "expected"), NEXT)
def test_the_next_time_of_a_cron_expression_is_found_in_its_time_zone(
    cron: str, zone: str, after: str, expected: str
) -> None:
    assert next_time(schedule(cron, zone), at(after)) == at(expected)


LATEST = [
    ("0 9 * * *", "UTC", "2026-01-01T00:00", "2026-01-05T09:00", "2026-01-05T09:00"),
    ("0 9 * * *", "UTC", "2026-01-01T00:00", "2026-01-05T08:59", "2026-01-04T09:00"),
    ("0 9 * * *", "UTC", "2026-01-05T09:00", "2026-01-06T08:59", None),
    ("30 2 * * *", "Europe/Vienna", "2026-10-25T00:30", "2026-10-25T05:00", None),
]


@pytest.mark.parametrize(("cron", "zone", "after", "until", "expected"), LATEST)
def test_the_latest_missed_time_lies_between_two_given_times_or_is_none(
    cron: str, zone: str, after: str, until: str, expected: str | None
) -> None:
    assert latest_time(schedule(cron, zone), at(after), at(until)) == (at(expected) if expected else None)


@given(
    st.sampled_from(["*/7 * * * *", "0 9 * * *", "30 2 * * *", "15 */3 * * 1-5"]),
    st.sampled_from(["UTC", "Europe/Vienna", "America/New_York", "Asia/Kolkata"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
)
def test_the_latest_time_up_to_the_next_is_the_next(cron: str, zone: str, naive: datetime) -> None:
    now = naive.replace(tzinfo=UTC)
    upcoming = next_time(schedule(cron, zone), now)
    assert upcoming > now
    assert latest_time(schedule(cron, zone), now, upcoming) == upcoming
    assert latest_time(schedule(cron, zone), now, upcoming - timedelta(seconds=1)) is None


CLOCK_GOES_BACK = [
    ("America/New_York", datetime(2026, 11, 1, 4)),
    ("Europe/Vienna", datetime(2026, 10, 24, 23)),
    # By half an hour, at two; and at midnight.
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 13)),
    ("America/Havana", datetime(2026, 11, 1, 3)),
]
TIMES_OF_A_NIGHT = [
    "0,30 1 * * *", "*/15 1 * * *", "*/15 * * * *", "30 */1 * * *", "30 0-23 * * *", "15 1-2 * * *",
    "*/20 0-3/1 * * *", "*/7 2 * * *", "0,15,30,45 1,2 * * 0", "*/5 0 * * *", "59 1 * * *",
]  # fmt: skip


@pytest.mark.parametrize(("zone", "begin"), CLOCK_GOES_BACK)
@pytest.mark.parametrize("cron", TIMES_OF_A_NIGHT)
def test_each_minute_of_a_repeated_hour_has_its_time_of_the_schedule(zone: str, begin: datetime, cron: str) -> None:
    night = [begin.replace(tzinfo=UTC) + timedelta(minutes=minute) for minute in range(6 * 60)]
    expected = [moment for moment in night if is_minute_of(cron, moment.astimezone(ZoneInfo(zone)))]
    found = [night[0] - timedelta(minutes=1)]
    while found[-1] <= night[-1]:
        found.append(next_time(schedule(cron, zone), found[-1]))
    assert found[1:-1] == expected
    for until in night[::5]:
        passed = [moment for moment in expected if moment <= until]
        assert latest_time(schedule(cron, zone), found[0], until) == (passed[-1] if passed else None)


def is_minute_of(cron: str, local: datetime) -> bool:
    """Whether a schedule has a minute, of a repeated hour only the first time unless it is for every hour."""
    return croniter.match(cron, local.replace(tzinfo=None)) and (not local.fold or cron.split()[1].startswith("*"))


def test_a_run_is_too_late_only_after_its_starting_deadline() -> None:
    late = schedule("0 9 * * *", startingDeadline="PT1H")
    assert not is_too_late(late, NOW, NOW + timedelta(hours=1))
    assert is_too_late(late, NOW, NOW + timedelta(hours=1, seconds=1))
    assert not is_too_late(schedule("0 9 * * *"), NOW, NOW + timedelta(days=9))


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_backoff_is_bounded_and_never_shrinks(failures: int, jitter: float) -> None:
    base, longest = timedelta(seconds=10), timedelta(minutes=10)
    assert base <= backoff(failures, base, longest, jitter) <= longest * 1.2
    assert backoff(1, base, longest) == base
    assert backoff(failures + 1, base, longest) >= backoff(failures, base, longest)


def test_jitter_lengthens_a_backoff_by_a_fifth_at_most() -> None:
    base, longest = timedelta(seconds=10), timedelta(minutes=10)
    assert [backoff(3, base, longest, jitter).total_seconds() for jitter in (0, 0.5, 1)] == [40, 44, 48]


def test_jitter_is_a_function_of_its_key() -> None:
    assert jitter_of("a") == jitter_of("a") != jitter_of("b")
    jitters = [jitter_of(str(number)) for number in range(100)]
    assert 0 <= min(jitters) < 0.1
    assert 0.9 < max(jitters) <= 1


def lease_request(name: str, seconds: int = 0) -> LeaseRequest:
    return LeaseRequest(f"default/{name}", "ingest", f"MessageStream default/{name}", NOW + timedelta(seconds=seconds))


def lease(**given: object) -> TableLease:
    return TableLease(TableKey("default", "", "s3a://lake/orders"), 7, resource_version="1", **given)


def test_the_holder_of_a_lease_is_granted_it_again_with_the_same_epoch() -> None:
    assert grant(lease(holder="default/a"), lease_request("a"), NOW, Defaults()) == Granted(7)


def holder(state: AppState, phase: str | None) -> ObservedRun:
    driver = DriverPod(phase) if phase else None
    return ObservedRun(RunRef("default", "a", 1, "ingest"), state, driver=driver)


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ({"holder_run": None}, True),
        ({"holder_run": holder(AppState.SUCCEEDED, "Succeeded")}, True),
        ({"holder_run": holder(AppState.MISSING, None)}, True),
        ({"holder_run": holder(AppState.RUNNING, "Running")}, False),
        # Its application is gone or has ended, but its driver may still write.
        ({"holder_run": holder(AppState.MISSING, "Running")}, False),
        ({"holder_run": holder(AppState.FAILED, "Unknown")}, False),
        # A status names it, and may be newer than the observation.
        ({"holder_run": None, "holder_request": lease_request("a")}, False),
        ({"holder_run": None, "since": NOW - timedelta(seconds=1)}, False),
        ({"holder_run": None, "since": NOW - Defaults().turn_after}, True),
        # Clocks differ a little; one that was set back doesn't keep the table until then.
        ({"holder_run": None, "since": NOW + timedelta(seconds=1)}, False),
        ({"holder_run": None, "since": NOW + timedelta(days=1)}, True),
    ],
)
def test_a_table_is_taken_only_from_a_holder_that_writes_no_more(given: dict[str, Any], gone: bool) -> None:
    held = lease(**{"holder": "default/a", "since": NOW - timedelta(days=1), **given})
    assert is_abandoned(held, NOW, Defaults()) is gone
    assert isinstance(
        grant(replace(held, queue=(lease_request("b"),)), lease_request("b"), NOW, Defaults()),
        Granted if gone else Busy,
    )


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("given", "named", "goes"),
    [
        ({"since": NOW - DAY}, False, True),
        ({"since": NOW - DAY}, True, False),
        ({"since": NOW - DAY + timedelta(seconds=1)}, False, False),
        ({"since": None}, False, False),
        ({"since": NOW - DAY, "holder": "default/a", "holder_run": holder(AppState.RUNNING, "Running")}, False, False),
        ({"since": NOW - DAY, "holder": "default/a", "holder_run": None}, False, True),
    ],
)
def test_an_unused_lease_is_left_over_after_a_day(given: dict[str, Any], named: bool, goes: bool) -> None:
    assert is_left_over(lease(**given), named, NOW, Defaults()) is goes


def test_the_first_in_the_queue_comes_first_and_does_not_block_it_for_ever() -> None:
    second, first, third = (lease_request("b", 2), lease_request("a", 1), lease_request("c", 3))
    free = lease(since=NOW + timedelta(seconds=5), queue=(second, first, third))
    turn = NOW + timedelta(seconds=5) + Defaults().turn_after
    assert isinstance(grant(free, first, NOW + timedelta(seconds=6), Defaults()), Granted)
    busy = Busy("ingest run a of MessageStream default/a, which comes first", turn)
    assert grant(free, third, turn - timedelta(seconds=1), Defaults()) == busy
    assert isinstance(grant(free, third, turn, Defaults()), Granted)


def test_a_clock_that_was_set_back_lets_nobody_wait_for_the_first_in_the_queue_until_then() -> None:
    ahead, waiting = lease_request("a", 1), lease_request("b", 2)
    free = lease(since=NOW + timedelta(days=400), queue=(ahead, waiting))
    assert isinstance(grant(free, waiting, NOW, Defaults()), Granted)


def test_an_epoch_only_grows() -> None:
    assert next_epoch(5, NOW) == next_epoch(0, NOW) > 5
    assert next_epoch(2**40, NOW) == 2**40 + 1
