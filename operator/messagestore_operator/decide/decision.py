"""One look at a resource of any kind."""

from __future__ import annotations

from messagestore_operator.decide.actions import Decision
from messagestore_operator.decide.snapshot import Snapshot, StreamSnapshot
from messagestore_operator.decide.stream import decide_stream


def decide(snapshot: Snapshot) -> Decision:
    """What is to be done about the resource of a snapshot."""
    if isinstance(snapshot, StreamSnapshot):
        return decide_stream(snapshot)
    raise TypeError(type(snapshot).__name__)
