"""The decision about a resource of any kind; a status is written less often if only its figures change."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.decide.actions import Decision, EmitEvent, Status, WriteStatus, need_newest_status
from messagestore_operator.decide.blockers import awaits_secrets
from messagestore_operator.decide.policy import decide_policy
from messagestore_operator.decide.replay import decide_replay
from messagestore_operator.decide.report_checks import with_valid_reports
from messagestore_operator.decide.snapshot import PolicySnapshot, ReplaySnapshot, Snapshot, StreamSnapshot
from messagestore_operator.decide.stream import decide_stream
from messagestore_operator.decide.trigger import later
from messagestore_operator.status.reasons import Reason

_FIGURES = ("lag", "lastBatch", "lastBatchTime", "lifecycle", "progress", "sequences", "table", "totals")
_NOT_WATCHED_AGAIN = timedelta(seconds=30)
_SHORT = timedelta(seconds=15)
"""A run that ends sooner is shown when it has ended. Less than the time for which its slot is counted without that."""
_BEGUN = ("launchedAt", "startedAt", "state")
_BEGINNING = (Reason.PENDING, Reason.RUNNING)
"""Reasons while a stream's first run is being started, and then runs."""


def sparing(snapshot: Snapshot, before: Status | None, wanted: Decision) -> Decision:
    """The decision, without a status write that can wait: it has only new figures, or only that a run has begun.

    Events about these wait for the write.
    """
    if snapshot.status_written is None or before is None:
        return wanted
    due = _begins(snapshot, before, wanted.status)
    if due is None:
        if _essence(before) != _essence(wanted.status):
            return wanted
        due = later(snapshot.status_written, snapshot.defaults.status_interval, snapshot.now)
    writes = any(isinstance(action, WriteStatus) for action in wanted.actions)
    if need_newest_status(wanted.actions) or not writes or due <= snapshot.now:
        return wanted
    left = tuple(action for action in wanted.actions if not isinstance(action, WriteStatus | EmitEvent))
    return replace(wanted, actions=left, requeue_at=min(due, wanted.requeue_at or due))


def _begins(snapshot: Snapshot, before: Status, after: Status) -> datetime | None:
    """When to write that a stream's run was launched or has started, if that is the only news; None if it is not.

    Most runs of most streams are short: their beginning is written with their end.
    """
    if not (isinstance(before, MessageStreamStatus) and isinstance(after, MessageStreamStatus)):
        return None
    reserved, begun = before.current_run, after.current_run
    if reserved is None or reserved.launched_at is not None or begun is None or begun.launched_at is None:
        return None
    if after.phase != "Running" or _before_it_began(before) != _before_it_began(after):
        return None
    return later(begun.launched_at.datetime, min(_SHORT, snapshot.defaults.status_interval / 4), snapshot.now)


def _before_it_began(status: MessageStreamStatus) -> dict[str, Any]:
    """A status' essence without what the beginning of its current run changes."""
    compared = _essence(status)
    compared["phase"] = None
    compared["currentRun"] = {name: value for name, value in compared["currentRun"].items() if name not in _BEGUN}
    compared["conditions"] = [one for one in compared["conditions"] if one["reason"] not in _BEGINNING]
    return compared


def _essence(status: Status) -> dict[str, Any]:
    """A status without its figures, and without the messages that contain them."""
    compared = {name: value for name, value in status.to_dict().items() if name not in _FIGURES}
    for run in (compared, *compared.get("streams", ())):
        run.get("currentRun", {}).pop("progress", None)
    for condition in compared.get("conditions", ()):
        if condition["reason"] == Reason.INGESTING:
            del condition["message"]
    return compared


def decide(snapshot: Snapshot) -> Decision:
    """Decide about the resource of a snapshot."""
    snapshot = with_valid_reports(snapshot)
    decision = sparing(snapshot, snapshot.resource.status, _decide(snapshot))
    if not snapshot.can_run:
        # No watch shows when a deleted namespace exists again.
        return _requeued(decision, snapshot.now + snapshot.defaults.poll_interval)
    if snapshot.paused is not None or awaits_secrets(snapshot):
        # Neither namespaces nor Secrets are watched.
        return _requeued(decision, snapshot.now + _NOT_WATCHED_AGAIN)
    return decision


def _requeued(decision: Decision, at: datetime) -> Decision:
    return replace(decision, requeue_at=min(at, decision.requeue_at or at))


def _decide(snapshot: Snapshot) -> Decision:
    if isinstance(snapshot, StreamSnapshot):
        return decide_stream(snapshot)
    if isinstance(snapshot, PolicySnapshot):
        return decide_policy(snapshot)
    if isinstance(snapshot, ReplaySnapshot):
        return decide_replay(snapshot)
    raise TypeError(type(snapshot).__name__)
