"""Puts a decision together: its actions in an order that is safe to be cut off anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from messagestore_operator.api import Resource
from messagestore_operator.decide.actions import (
    AcquireLease,
    Action,
    AddFinalizer,
    AwaitRoom,
    CreateRun,
    Decision,
    DeleteResource,
    DeleteRun,
    EmitEvent,
    ReleaseLease,
    RemoveFinalizer,
    SetControl,
    Status,
    WriteStatus,
    need_newest_status,
)

_ORDER: tuple[type, ...] = (
    AddFinalizer,
    WriteStatus,
    AwaitRoom,
    EmitEvent,
    ReleaseLease,
    SetControl,
    DeleteRun,
    AcquireLease,
    CreateRun,
    RemoveFinalizer,
    DeleteResource,
)
"""What came of a run is written down before anything of it is removed; a run is reserved before it is made."""


def decision(
    resource: Resource, before: Status | None, status: Status, actions: Iterable[Action], look_at: Iterable[datetime]
) -> Decision:
    """The actions in order, with the writing of the status where it is new, or must prove that the snapshot was."""
    wanted = list(actions)
    if need_newest_status(wanted) or before is None or before.to_dict() != status.to_dict():
        wanted.append(WriteStatus(status, resource.metadata.resource_version))
    ordered = tuple(action for kind in _ORDER for action in wanted if type(action) is kind)
    return Decision(ordered, status, min(look_at, default=None))
