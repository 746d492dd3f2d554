"""The decision about a resource of any kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from messagestore_operator.decide.actions import Decision, Status
from messagestore_operator.decide.check import awaits_secrets
from messagestore_operator.decide.figures import sparing
from messagestore_operator.decide.policy import decide_policy
from messagestore_operator.decide.replay import decide_replay
from messagestore_operator.decide.snapshot import PolicySnapshot, ReplaySnapshot, Snapshot, StreamSnapshot
from messagestore_operator.decide.stream import decide_stream

_NOT_WATCHED_AGAIN = timedelta(seconds=30)


def decide(snapshot: Snapshot) -> Decision:
    """Decide about the resource of a snapshot."""
    decision = sparing(snapshot, _status(snapshot), _decide(snapshot))
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


def _status(snapshot: Snapshot) -> Status | None:
    if isinstance(snapshot, StreamSnapshot):
        return snapshot.stream.status
    if isinstance(snapshot, PolicySnapshot):
        return snapshot.policy.status
    return snapshot.job.status if isinstance(snapshot, ReplaySnapshot) else None
