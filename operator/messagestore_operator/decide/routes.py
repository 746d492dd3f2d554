"""When several destinations of a subscription are tried: one that fails by a backoff of its own, the others by trigger.

A failing one rests until its next try is due, or for good if no retry helps; a changed spec, a request and a reset end
that.
"""

from datetime import datetime

from messagestore_core.clock import shifted
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob_status import DestinationFailure
from messagestore_operator.decide.lasting import ENOUGH_TRIES
from messagestore_operator.decide.snapshot import Defaults
from messagestore_operator.decide.trigger import backoff, jitter_of, later, next_time_of
from messagestore_operator.status.conditions import LASTING, TERMINAL
from messagestore_operator.status.routes import failing
from messagestore_operator.translate.replay import Routes


def due_at(job: ReplayJob, status: ReplayJobStatus, defaults: Defaults, now: datetime) -> datetime | None:
    """When the next run is due, of a job with failing destinations; None if only a change can start one."""
    failures = failing(job, status)
    times = list(next_tries(job, failures, defaults, now).values())
    if any(failure.retry_requested for failure in failures.values()):
        times.append(now)
    if len(failures) < len(job.spec.destinations):
        assert job.spec.trigger is not None
        times += filter(None, [next_time_of(job.spec.trigger, job, status, now)])
    return min(times, default=None)


def routes_of(job: ReplayJob, status: ReplayJobStatus, defaults: Defaults, now: datetime) -> Routes:
    """Which of several destinations the run that is launched now leaves alone, and which come last.

    One that goes on tries them again by itself, but for those that no try helps.
    """
    failures = failing(job, status)
    tries = next_tries(job, failures, defaults, now)
    resting = {
        name
        for name, failure in failures.items()
        if not failure.retry_requested and ((at := tries.get(name)) is None or (at > now and not job.spec.goes_on))
    }
    return Routes(frozenset(resting), frozenset(failures))


def next_tries(
    job: ReplayJob, failures: dict[str, DestinationFailure], defaults: Defaults, now: datetime
) -> dict[str, datetime]:
    """When each failing destination is tried again, each time later; without those that no retry helps."""
    tries = {}
    for name, failure in failures.items():
        if failure.reason not in TERMINAL:
            jitter = jitter_of(f"{job.metadata.uid}/{name}/{failure.attempts}")
            wait = backoff(failure.attempts, defaults.backoff_base, defaults.backoff_max, jitter)
            tries[name] = later(failure.last_attempt_time.datetime, wait, now)
    return tries


def stalls_at(failures: dict[str, DestinationFailure], defaults: Defaults) -> dict[str, datetime]:
    """When a destination is, or will be, stalled by a failure that lasts until somebody changes something."""
    return {
        name: shifted(failure.since.datetime, defaults.stalled_after)
        for name, failure in failures.items()
        if failure.reason in LASTING and failure.attempts >= ENOUGH_TRIES
    }


def with_retries(status: ReplayJobStatus) -> ReplayJobStatus:
    """The status after a run or a reset was asked for: no destination rests in the next run."""
    destinations = [
        one.model_copy(update={"failure": one.failure.model_copy(update={"retry_requested": True})})
        if one.failure
        else one
        for one in status.destinations
    ]
    return status.model_copy(update={"destinations": tuple(destinations)})
