"""When the next run is due: by the trigger, by requests, and by how the last run ended."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from messagestore_core.clock import shifted
from messagestore_operator.api import MessageStreamStatus, ReplayJobStatus, Resource
from messagestore_operator.api.common import Schedule
from messagestore_operator.api.messagestream import StreamTrigger
from messagestore_operator.api.replayjob import ReplayTrigger
from messagestore_operator.api.status import FinishedRun, TriggeredStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.schedule import is_too_late, latest_time, next_time
from messagestore_operator.decide.snapshot import Defaults
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import broke_off_as_it_is, is_final
from messagestore_operator.status.words import clock_time
from messagestore_operator.translate.annotations import run_requested

Status = TypeVar("Status", bound=TriggeredStatus)
Runs = TypeVar("Runs", MessageStreamStatus, ReplayJobStatus)
_MOST_DOUBLINGS = 32
_SPREAD = 0.2


def backoff(failures: int, base: timedelta, longest: timedelta, jitter: float = 0.0) -> timedelta:
    """The wait doubles with each failure, from ``base`` to ``longest``; jitter adds up to a fifth."""
    doubled: timedelta = base * 2 ** min(max(failures, 1) - 1, _MOST_DOUBLINGS)
    waits: timedelta = min(doubled, longest) * (1 + _SPREAD * jitter)
    return waits


def jitter_of(key: str) -> float:
    """A number from 0 to 1, always the same for a key, so that runs that failed together are not retried together."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32


@dataclass(frozen=True)
class Scheduled:
    """Times of a schedule: the latest that is due, one that is too late to make up for, and the next."""

    due: datetime | None
    missed: datetime | None
    next: datetime | None


def scheduled(schedule: Schedule, resource: Resource, status: TriggeredStatus, now: datetime) -> Scheduled:
    """The schedule's times now. One run, for the latest time, makes up for all missed ones."""
    after = status.last_schedule_time.datetime if status.last_schedule_time else created(resource, now)
    latest, upcoming = latest_time(schedule, after, now), next_time(schedule, now)
    if latest is not None and is_too_late(schedule, latest, now):
        return Scheduled(None, latest, upcoming)
    return Scheduled(latest, None, upcoming)


def next_time_of(
    trigger: StreamTrigger | ReplayTrigger,
    resource: Resource,
    status: MessageStreamStatus | ReplayJobStatus,
    now: datetime,
) -> datetime | None:
    """When a trigger by interval or schedule asks for the next run; None for a manual one."""
    schedule = trigger.schedule
    if trigger.interval is not None:
        return next_start(status.last_run, trigger.interval.timedelta, now)
    if schedule is not None:
        times = scheduled(schedule, resource, status, now)
        return times.due or times.next
    return None


def answered(
    schedule: Schedule | None, resource: Resource, status: TriggeredStatus, now: datetime
) -> dict[str, object]:
    """The status' fields after a run is created, which answers all requests until now."""
    due = scheduled(schedule, resource, status, now).due if schedule else None
    return {
        "last_schedule_time": clock_time(due) or status.last_schedule_time,
        "last_handled_request": run_requested(resource) or status.last_handled_request,
    }


def unanswered(status: Runs) -> Runs:
    """The status after a reserved run was dropped before it was created: what it was to answer is due again."""
    last, began = status.last_schedule_time, status.last_run.started_at if status.last_run else None
    before = last if last and began and began.datetime >= last.datetime else None
    return status.model_copy(update={"last_schedule_time": before, "last_handled_request": None})


def new_request(resource: Resource, status: TriggeredStatus) -> str | None:
    """The value of the annotation for a request that has not been handled; else None."""
    request = run_requested(resource)
    return request if request is not None and request != status.last_handled_request else None


def next_start(run: FinishedRun | None, interval: timedelta, now: datetime) -> datetime:
    """When the run after the last one is due, counted from its start; now if there was none."""
    if run is None or run.started_at is None:
        return now
    begun = run.started_at.datetime
    # The start may be from the API server's clock; the end is always from the operator's, and never before it.
    return later(min(begun, run.finished_at.datetime) if run.finished_at else begun, interval, now)


def retry_at(run: FinishedRun, resource: Resource, defaults: Defaults, now: datetime) -> datetime | None:
    """When a run that broke off is retried; None if no retry helps."""
    return None if is_final(run, resource) else next_try(run, resource, defaults, now)


def next_try(run: FinishedRun, resource: Resource, defaults: Defaults, now: datetime) -> datetime:
    """When the try after a run that broke off is due, each later than the one before."""
    assert run.finished_at is not None
    jitter = jitter_of(f"{resource.metadata.uid}/{run.name}")
    wait = backoff(run.attempt, defaults.backoff_base, defaults.backoff_max, jitter)
    return later(run.finished_at.datetime, wait, now)


def later(moment: datetime, wait: timedelta, now: datetime) -> datetime:
    """A moment plus a wait; now if the moment is in the future, as a clock ahead of this one wrote it."""
    return shifted(moment, wait) if moment <= now else now


def next_attempt(run: FinishedRun | None, resource: Resource, defaults: Defaults) -> int:
    """The attempt number of the next run. One that broke off after long work restarts the count."""
    if run is None or not broke_off_as_it_is(run, resource) or _lasted(run) > defaults.backoff_max:
        return 1
    return run.attempt + 1


def created(resource: Resource, now: datetime) -> datetime:
    """When the resource was created."""
    stamp = resource.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else now


def _lasted(run: FinishedRun) -> timedelta:
    if run.started_at is None or run.finished_at is None:
        return timedelta(0)
    return run.finished_at.datetime - run.started_at.datetime


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
