"""Schedules where a clock is changed, against a table of changes and a reading of cron that is independent of ours.

A schedule has each minute that its fields match. A minute that comes twice counts once, unless the schedule is for
every hour. Minutes that are skipped give one start, as the clock has gone forward.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import latest_time, next_time

MINUTE = timedelta(minutes=1)

# When a clock is changed (UTC), and the hours between it and UTC before and after, by the laws of each place.
CHANGES = [
    ("Europe/Vienna", "2026-03-29T01:00", 1, 2),
    ("Europe/Vienna", "2026-10-25T01:00", 2, 1),
    ("Europe/London", "2026-03-29T01:00", 0, 1),
    ("Europe/London", "2026-10-25T01:00", 1, 0),
    ("America/New_York", "2026-03-08T07:00", -5, -4),
    ("America/New_York", "2026-11-01T06:00", -4, -5),
    # At midnight.
    ("America/Havana", "2026-03-08T05:00", -5, -4),
    ("America/Havana", "2026-11-01T05:00", -4, -5),
    ("America/Santiago", "2026-04-05T03:00", -3, -4),
    # By half an hour, by a zone of three quarters, by two hours.
    ("Australia/Lord_Howe", "2026-04-04T15:00", 11, 10.5),
    ("Australia/Lord_Howe", "2026-10-03T15:30", 10.5, 11),
    ("Pacific/Chatham", "2026-04-04T14:00", 13.75, 12.75),
    ("Pacific/Chatham", "2026-09-26T14:00", 12.75, 13.75),
    ("Antarctica/Troll", "2026-03-29T01:00", 0, 2),
    ("Antarctica/Troll", "2026-10-25T01:00", 2, 0),
    # A day that a country left out.
    ("Pacific/Apia", "2011-12-30T10:00", -10, 14),
]
CRONS = [
    "30 2 * * *", "*/15 * * * *", "*/15 2 * * *", "0,30 0-3 * * *", "0 0 * * *", "45 1,3 * * *", "7 */2 * * *",
    "30 1 * * 0", "0 2 29 3 *", "59 23 31 12 *", "0 12 * * *", "10-20/5 0 1,8 * *",
]  # fmt: skip


@pytest.mark.parametrize(("zone", "at", "before", "after"), CHANGES)
def test_a_clock_is_changed_when_the_law_says(zone: str, at: str, before: float, after: float) -> None:
    moment = utc(at)
    offsets = [(moment - by).astimezone(ZoneInfo(zone)).utcoffset() for by in (MINUTE, timedelta(0))]
    assert offsets == [timedelta(hours=before), timedelta(hours=after)]


@pytest.mark.parametrize(("zone", "at", "before", "after"), CHANGES)
@pytest.mark.parametrize("cron", CRONS)
def test_around_a_change_a_schedule_starts_as_its_minutes_say(
    zone: str, at: str, before: float, after: float, cron: str
) -> None:
    schedule, moment = Schedule.model_validate({"cron": cron, "timeZone": zone}), utc(at)
    first, last = moment - timedelta(hours=3), moment + timedelta(hours=6)
    expected = list(minutes_of(cron, ZoneInfo(zone), first, last, moment, timedelta(hours=after - before)))
    found = [next_time(schedule, first - MINUTE)]
    while found[-1] < last:
        found.append(next_time(schedule, found[-1]))
    assert [time for time in found if time < last] == expected
    for until in (moment - MINUTE, moment, moment + timedelta(minutes=45), last - MINUTE):
        passed = [time for time in expected if time <= until]
        assert latest_time(schedule, first - MINUTE, until) == (passed[-1] if passed else None)


def minutes_of(
    cron: str, zone: ZoneInfo, first: datetime, last: datetime, change: datetime, forward: timedelta
) -> Iterator[datetime]:
    time, hourly = first, cron.split()[1].startswith("*")
    while time < last:
        local = time.astimezone(zone)
        skipped = range(int(forward / MINUTE)) if time == change else ()
        naive = local.replace(tzinfo=None, fold=0)
        matched = matches(cron, naive) and (hourly or not local.fold)
        if matched or any(matches(cron, naive - MINUTE * (minute + 1)) for minute in skipped):
            yield time
        time += MINUTE


def matches(cron: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = cron.split()
    if not (has(minute, local.minute, 0) and has(hour, local.hour, 0) and has(month, local.month, 1)):
        return False
    days = [has(day, local.day, 1), has(weekday, local.isoweekday() % 7, 0)]
    return all(days) if "*" in (day[0], weekday[0]) else any(days)


def has(field: str, value: int, least: int) -> bool:
    for item in field.split(","):
        span, _, step = item.partition("/")
        start, _, end = span.partition("-")
        low, high = (least, 99) if span == "*" else (int(start), int(end or start))
        if low <= value <= high and (value - low) % int(step or 1) == 0:
            return True
    return False


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


@pytest.mark.parametrize(
    ("cron", "plain"),
    [
        ("30 2-2 * * *", "30 2 * * *"),
        ("30 2 1-1,15 * *", "30 2 1,15 * *"),
        ("5-5/9 2-22 * * *", "5 2-22 * * *"),
        ("0 0 * * MON-MON", "0 0 * * MON"),
    ],
)
def test_a_range_of_one_value_is_this_value(cron: str, plain: str) -> None:
    moment = utc("2026-01-03T10:00")
    for _ in range(30):
        upcoming, expected = (next_time(Schedule.model_validate({"cron": one}), moment) for one in (cron, plain))
        assert upcoming == expected
        moment = upcoming
