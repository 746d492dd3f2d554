"""Points in time of a schedule, in its own time zone, over changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from messagestore_operator.api.common import Schedule


def latest_time(schedule: Schedule, after: datetime, until: datetime) -> datetime | None:
    """The latest point in time later than `after` and not later than `until`; all before it are made up for by it."""
    found = _step(schedule, until, forward=False)
    return found if found is not None and found > after else None


def next_time(schedule: Schedule, after: datetime) -> datetime | None:
    """The first point in time later than `after`."""
    return _step(schedule, after, forward=True)


def is_too_late(schedule: Schedule, time: datetime, now: datetime) -> bool:
    """Whether a run that was due at `time` must not be started any more."""
    return schedule.starting_deadline is not None and now - time > schedule.starting_deadline.timedelta


def _step(schedule: Schedule, moment: datetime, *, forward: bool) -> datetime | None:
    """The next time after `moment`, or the last one up to and with it."""
    times = croniter(schedule.cron, moment.astimezone(ZoneInfo(schedule.time_zone)))
    if not forward and croniter.match(schedule.cron, moment.astimezone(ZoneInfo(schedule.time_zone))):
        local = moment.astimezone(ZoneInfo(schedule.time_zone)).replace(second=0, microsecond=0)
        if not _is_repeated(schedule, local):
            return local.astimezone(UTC)
    while True:
        found: datetime = times.get_next(datetime) if forward else times.get_prev(datetime)
        if not _is_repeated(schedule, found):
            return found.astimezone(UTC)


def _is_repeated(schedule: Schedule, local: datetime) -> bool:
    """Whether it comes a second time in a night when the clock goes back; only what runs every hour does so twice."""
    return local.fold == 1 and not schedule.cron.split()[1].startswith("*")
