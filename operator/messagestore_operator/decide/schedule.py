"""Points in time of a schedule, in its own time zone, over changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from messagestore_operator.api.common import Schedule


def latest_time(schedule: Schedule, after: datetime, until: datetime) -> datetime | None:
    """The latest scheduled time later than `after` and not later than `until`; one run makes up for all before it."""
    local = until.astimezone(ZoneInfo(schedule.time_zone))
    minute = local.replace(second=0, microsecond=0)
    if croniter.match(schedule.cron, local) and not _is_repeated(schedule, minute):
        found = minute.astimezone(UTC)
    else:
        found = _step(schedule, minute, forward=False)
    return found if found > after else None


def next_time(schedule: Schedule, after: datetime) -> datetime:
    """The first point in time later than `after`."""
    return _step(schedule, after.astimezone(ZoneInfo(schedule.time_zone)), forward=True)


def is_too_late(schedule: Schedule, time: datetime, now: datetime) -> bool:
    """Whether a run that was due at `time` must not be started any more."""
    return schedule.starting_deadline is not None and now - time > schedule.starting_deadline.timedelta


def _step(schedule: Schedule, local: datetime, *, forward: bool) -> datetime:
    """The next point in time after `local`, or the last one before it."""
    times = croniter(schedule.cron, local)
    found: datetime = times.get_next(datetime) if forward else times.get_prev(datetime)
    if _is_repeated(schedule, found):
        found = times.get_next(datetime) if forward else times.get_prev(datetime)
    return found.astimezone(UTC)


def _is_repeated(schedule: Schedule, moment: datetime) -> bool:
    """Whether the time occurs a second time as the clock goes back; only hourly schedules run twice then."""
    # Only the zone knows the fold: that of a computed time means nothing.
    again = moment.astimezone(UTC).astimezone(ZoneInfo(schedule.time_zone)).fold == 1
    return again and not schedule.cron.split()[1].startswith("*")
