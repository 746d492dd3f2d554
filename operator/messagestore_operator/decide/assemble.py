"""Assembles a decision: its actions in an order that is safe to be interrupted anywhere."""

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
"""A run's outcome is recorded before any of its objects is removed; a run is reserved before it is created."""


def decision(
    resource: Resource, before: Status | None, status: Status, actions: Iterable[Action], requeue_at: Iterable[datetime]
) -> Decision:
    """The actions in order, with a status write if the status has changed or must prove the snapshot current."""
    wanted = list(actions)
    if need_newest_status(wanted) or before is None or before.to_dict() != status.to_dict():
        wanted.append(WriteStatus(status, resource.metadata.resource_version))
    ordered = tuple(action for kind in _ORDER for action in wanted if type(action) is kind)
    return Decision(ordered, status, min(requeue_at, default=None))
