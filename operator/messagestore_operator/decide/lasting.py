"""Failures that last until somebody changes something outside of the resource, such as wrong keys."""

from dataclasses import dataclass
from datetime import datetime

from messagestore_core.clock import shifted
from messagestore_core.contract.base import RunError
from messagestore_operator.api import MessageStreamStatus, ReplayJobStatus, Resource
from messagestore_operator.api.retentionpolicy_status import PolicyStreamStatus
from messagestore_operator.api.status import BaseStatus, LastingFailure
from messagestore_operator.api.status import RunError as StatusError
from messagestore_operator.decide.snapshot import Defaults, Snapshot
from messagestore_operator.status.conditions import LASTING, OUTAGES, generation
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import api_error, failed_as_it_is
from messagestore_operator.status.words import clock_time

ENOUGH_TRIES = 2


Tried = MessageStreamStatus | PolicyStreamStatus | ReplayJobStatus
"""What has the outcome of runs: a status, or a policy's entry for a stream."""


@dataclass(frozen=True)
class Lasting:
    """A lasting failure in the status, the error once the resource is stalled by it, and when it will be."""

    failure: LastingFailure | None = None
    error: RunError | None = None
    stalls_at: datetime | None = None


def lasting_of_runs(
    snapshot: Snapshot, resource: Resource, before: Tried | None, after: Tried, blocker: RunError | None
) -> Lasting:
    """The lasting failure after the last run; one of another spec doesn't count.

    Args:
        resource: with its status so far.
        before: the runs in the status so far.
        after: the runs as they are now.
        blocker: why no run can start.
    """
    status: BaseStatus | None = resource.status
    same = status is not None and status.observed_generation == generation(resource)
    known = before.lasting_failure if before is not None and same else None
    last = after.last_run
    error = last.error if last is not None and failed_as_it_is(last, resource) else None
    ended = last != (before.last_run if before is not None else None)
    return lasting(snapshot, known, blocker, error, ended=ended)


def lasting(
    snapshot: Snapshot,
    before: LastingFailure | None,
    blocker: RunError | None,
    failed: StatusError | None,
    *,
    ended: bool,
) -> Lasting:
    """The lasting failure of a resource, or of one stream of a policy.

    Args:
        before: the one in the status so far; None also if the spec has changed since.
        blocker: why no run can start.
        failed: why the last run failed; None once one succeeded or has committed something.
        ended: whether that run has just ended.
    """
    blocks = blocker is not None and blocker.reason in LASTING
    cause = api_error(blocker) if blocker and blocks else failed
    failure = _after(before, cause, snapshot, tried=ended and not blocks)
    if failure is None or (blocker is not None and not blocks):
        return Lasting(failure)
    if failure.attempts < ENOUGH_TRIES and failure.reason != Reason.SECRET_MISSING:
        return Lasting(failure)
    at = shifted(failure.since.datetime, snapshot.defaults.stalled_after)
    if at > snapshot.now:
        return Lasting(failure, stalls_at=at)
    assert cause is not None
    same = cause.reason == failure.reason
    words = cause.message if same else f"{failure.reason} since {failure.since}; the last try: {cause.message}"
    return Lasting(failure, RunError(reason=failure.reason, message=words))


def _after(
    before: LastingFailure | None, cause: StatusError | None, snapshot: Snapshot, *, tried: bool
) -> LastingFailure | None:
    if cause is None:
        return None
    if before is not None and before.reason == cause.reason:
        return before.model_copy(update={"attempts": before.attempts + tried})
    if cause.reason in LASTING:
        since = clock_time(snapshot.now)
        assert since is not None
        return LastingFailure(reason=cause.reason, since=since, attempts=int(tried))
    # A lost node, for example, says nothing about what the resource is stalled by.
    is_outage = cause.reason in OUTAGES
    was_stalled = before is not None and not is_outage and _is_stalled(before, snapshot.defaults, snapshot.now)
    return before if was_stalled else None


def _is_stalled(failure: LastingFailure, defaults: Defaults, now: datetime) -> bool:
    return failure.attempts >= ENOUGH_TRIES and shifted(failure.since.datetime, defaults.stalled_after) <= now
