"""Times of schedules, in their time zones, across changes to and from summer time, and the windows that they open."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from messagestore_core.clock import shifted
from messagestore_operator.api.common import Schedule

_RANGE_OF_ONE = re.compile(r"\b(\w+)-\1\b(?:/\d+)?")


def latest_time(schedule: Schedule, after: datetime, until: datetime) -> datetime | None:
    """The latest scheduled time after ``after`` and not after ``until``; one run makes up for all before it."""
    latest = _step(schedule, until.astimezone(ZoneInfo(schedule.time_zone)), forward=False)
    # Backwards, croniter may miss times just before the clock goes back, and never returns `until` itself.
    while (upcoming := next_time(schedule, latest)) <= until:
        latest = upcoming
    return latest if latest > after else None


def next_time(schedule: Schedule, after: datetime) -> datetime:
    """The first scheduled time after ``after``."""
    return _step(schedule, after.astimezone(ZoneInfo(schedule.time_zone)), forward=True)


def is_too_late(schedule: Schedule, time: datetime, now: datetime) -> bool:
    """Whether it is too late to start a run that was due at ``time``."""
    return schedule.starting_deadline is not None and now - time > schedule.starting_deadline.timedelta


def _step(schedule: Schedule, local: datetime, *, forward: bool) -> datetime:
    """The next scheduled time after ``local``, or the last one before it."""
    # Imported late: local runs have no schedules.
    from croniter import croniter

    # croniter takes a range of one, such as 2-2, for all values.
    times = croniter(_RANGE_OF_ONE.sub(r"\1", schedule.cron), local)
    step = times.get_next if forward else times.get_prev
    time: datetime = step(datetime)
    while _is_repeated(schedule, time):
        time = step(datetime)
    return time.astimezone(UTC)


def _is_repeated(schedule: Schedule, moment: datetime) -> bool:
    """Whether the time occurs a second time when the clock goes back; only hourly schedules run twice then."""
    # Only the zone knows the fold; a computed time's own fold means nothing.
    again = moment.astimezone(UTC).astimezone(ZoneInfo(schedule.time_zone)).fold == 1
    return again and not schedule.cron.split()[1].startswith("*")


@dataclass(frozen=True)
class Window:
    """A window that opens at each time of a schedule, for a duration."""

    schedule: Schedule
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Whether it is open at a time."""
        return latest_time(self.schedule, shifted(now, -self.duration), now) is not None


def opens_at(windows: Collection[Window], now: datetime) -> datetime | None:
    """When the next window opens; None if one is open or there are no windows."""
    if not windows or any(window.is_open(now) for window in windows):
        return None
    return min(next_time(window.schedule, now) for window in windows)
