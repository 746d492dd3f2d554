"""From a snapshot to the policy of its kind."""

from __future__ import annotations

from functools import singledispatch

from messagestore_operator.decide.actions import Decision
from messagestore_operator.decide.snapshot import Snapshot, StreamSnapshot
from messagestore_operator.decide.stream import decide_stream


@singledispatch
def decide(snapshot: Snapshot) -> Decision:
    """What is to be done about a resource."""
    raise TypeError(type(snapshot).__name__)


@decide.register
def _(snapshot: StreamSnapshot) -> Decision:
    return decide_stream(snapshot)
