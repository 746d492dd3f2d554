"""Who may write a table next: one run at a time, in the order in which they were reserved."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from messagestore_operator.decide.actions import AcquireLease
from messagestore_operator.decide.snapshot import Defaults, LeaseRequest, TableLease

_KEPT = timedelta(days=1)
_EPOCHS_START = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Granted:
    """The run has the table, or gets it by the acquisition."""

    epoch: int
    acquire: AcquireLease | None = None


@dataclass(frozen=True)
class Busy:
    """Another run has the table or comes first; at least until a time, if that is known."""

    who: str
    until: datetime | None = None


def grant(
    lease: TableLease, request: LeaseRequest, now: datetime, defaults: Defaults, after: int = 0
) -> Granted | Busy:
    """Whether a run may have the table now; its epoch must be higher than ``after``."""
    if lease.holder == request.holder:
        return Granted(lease.epoch)
    if is_held(lease, now, defaults):
        return Busy(_holder(lease))
    ahead = min((other for other in lease.queue if _turn(other) < _turn(request)), key=_turn, default=None)
    if ahead is not None and lease.resource_version is not None:
        free = max(lease.since or ahead.since, ahead.since)
        if _is_just_now(free, now, defaults):
            words = f"{ahead.kind} run {_run(ahead.holder)} of {ahead.resource}, which comes first"
            return Busy(words, free + defaults.turn_after)
    epoch = next_epoch(max(lease.epoch, after), now)
    return Granted(epoch, AcquireLease(lease.table, request.holder, epoch, lease.resource_version))


def with_requests(lease: TableLease, requests: Collection[tuple[LeaseRequest, bool]]) -> TableLease:
    """A lease with its holder's request and its queue, from the statuses of resources.

    A run that was launched has its table, whatever the Lease says: the Lease may have been deleted, or may have had
    another name in an earlier release or with an earlier endpoint of the stream.

    Args:
        requests: of all resources for the table; each with whether it waits.
    """
    launched = {request.holder: request for request, waits in requests if not waits}
    queue = tuple(request for request, waits in requests if waits)
    holder = lease.holder or next(iter(launched), None)
    known = {**{request.holder: request for request in queue}, **launched}
    return replace(lease, holder=holder, holder_request=known.get(holder or ""), queue=queue)


def is_held(lease: TableLease, now: datetime, defaults: Defaults) -> bool:
    """Whether a run has the table."""
    return bool(lease.holder) and not is_abandoned(lease, now, defaults)


def is_abandoned(lease: TableLease, now: datetime, defaults: Defaults) -> bool:
    """Whether its holder is gone and did not release it.

    No status names the run, and none of its pods can write any more. A lease that was taken just now doesn't count as
    abandoned: the data about its holder may be older than the lease.
    """
    if not lease.holder or lease.holder_request is not None:
        return False
    if lease.since is not None and _is_just_now(lease.since, now, defaults):
        return False
    return lease.holder_run is None or lease.holder_run.over


def is_left_over(lease: TableLease, named: bool, now: datetime, defaults: Defaults) -> bool:
    """Whether a Lease may be deleted: no resource names its table any more, and no run has held it for a day.

    Without a Lease the next epoch comes from the clock, and is higher than all earlier ones.
    """
    if named or lease.since is None or now - lease.since < _KEPT:
        return False
    return not is_held(lease, now, defaults)


def first_epoch(now: datetime) -> int:
    """The last epoch of a missing Lease: the seconds since 2020.

    Grants of one table are at least seconds apart, so epochs are always behind the clock. Even if the Lease was
    deleted, the cluster was created again, or a second cluster uses the table, the next grant is newer than all before.
    """
    return int((now - _EPOCHS_START).total_seconds())


def next_epoch(before: int, now: datetime) -> int:
    """Higher than before, and at least the seconds since 2020, so that epochs rise even if a Lease was lost."""
    return max(before + 1, first_epoch(now))


def _is_just_now(moment: datetime, now: datetime, defaults: Defaults) -> bool:
    """Whether a moment is about now; before a clock was set back, it may have told one far ahead."""
    return abs(now - moment) < defaults.turn_after


def _holder(lease: TableLease) -> str:
    name = _run(lease.holder or "")
    if lease.holder_request is not None:
        return f"{lease.holder_request.kind} run {name} of {lease.holder_request.resource}"
    if lease.holder_run is not None:
        return f"{lease.holder_run.ref.kind} run {name} of namespace {lease.holder_run.ref.namespace}"
    return f"run {name}"


def _run(holder: str) -> str:
    return holder.rpartition("/")[2]


def _turn(request: LeaseRequest) -> tuple[datetime, str]:
    return request.since, request.holder
