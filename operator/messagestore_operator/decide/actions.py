"""The actions of a decision. They are data; the cluster package executes them.

Actions are executed in order. After the first that fails, the operator takes a new snapshot and decides again. Each
action is idempotent, so an operator that was killed between two of them continues by deciding again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, get_args

from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStreamStatus, ReplayJobStatus, RetentionPolicyStatus
from messagestore_operator.api.spark import Spark
from messagestore_operator.decide.run_queue import RunSlot
from messagestore_operator.decide.snapshot import DriverControl, RunRef, TableKey
from messagestore_operator.kube.objects import NewEvent
from messagestore_operator.status.size import fitted
from messagestore_operator.translate.secrets import SecretVariable
from messagestore_operator.translate.storage import StorageAccess

if TYPE_CHECKING:
    from messagestore_operator.decide.run_lifecycle import EndedRun
from messagestore_operator.api import Resource

Status = MessageStreamStatus | RetentionPolicyStatus | ReplayJobStatus


@dataclass(frozen=True)
class WriteStatus:
    """Replace the resource's status if it still has this resource version.

    This reserves run numbers and records the outcome of runs. It comes before each launch, even if it changes nothing:
    it must still be sent, because it proves that the snapshot was not older than the resource. A conflict ends the
    decision.
    """

    status: Status
    resource_version: str | None


@dataclass(frozen=True)
class AcquireLease:
    """Give a table to a run: write the holder, and ``epoch`` as leaseTransitions.

    The Lease must still have this resource version; if that is None, there must be no Lease, and one is created.
    A conflict ends the decision. Decisions contain this only if the lease is free or its holder is known to be gone.
    """

    table: TableKey
    holder: str
    epoch: int
    resource_version: str | None


@dataclass(frozen=True)
class ReleaseLease:
    """Release a table: clear the holder, keep the epoch, write the time. Does nothing if another run holds the table.

    Afterwards the resources that wait for the table are reconciled.
    """

    table: TableKey
    holder: str


@dataclass(frozen=True)
class CreateRun:
    """Create a run's application and ConfigMap, each named ``run.name``; existing objects stay.

    An existing application is the same run, created before the operator was killed: that is success.
    """

    run: RunRef
    document: RunDocument
    control: DriverControl
    access: StorageAccess
    """The Secrets that its pods need to reach storage."""
    variables: tuple[SecretVariable, ...] = ()
    """Other Secrets that its pods need, such as a scrub key."""
    spark: Spark | None = None
    always_executors: bool = False
    """Whether it has executors for little work too."""
    slot: RunSlot | None = None
    """Its slot in the run queue."""


@dataclass(frozen=True)
class AwaitRoom:
    """Put a reserved run into the queue; its resource is reconciled once a slot is free."""

    slot: RunSlot


@dataclass(frozen=True)
class DeleteRun:
    """Delete a run's application and all that it owns; success if it is gone already."""

    namespace: str
    name: str


@dataclass(frozen=True)
class SetControl:
    """Write ``control.json`` of a run; success if the ConfigMap is gone."""

    namespace: str
    name: str
    control: DriverControl


class EmitEvent(NewEvent):
    """Send an Event. ``reason`` is one of ``reasons.Reason``."""


@dataclass(frozen=True)
class LogRun:
    """Write a line to the log about how a run ended."""

    ended: EndedRun


@dataclass(frozen=True)
class AddFinalizer:
    """Keep the resource until its data is deleted."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Remove the finalizer, so that the resource can be deleted."""


@dataclass(frozen=True)
class DeleteResource:
    """Delete the resource if it still has this uid."""

    uid: str | None


Action = (
    AddFinalizer
    | WriteStatus
    | AwaitRoom
    | LogRun
    | EmitEvent
    | ReleaseLease
    | SetControl
    | DeleteRun
    | AcquireLease
    | CreateRun
    | RemoveFinalizer
    | DeleteResource
)
"""In the order in which a decision has them, which is safe to be interrupted anywhere.

A run's outcome is recorded before any of its objects is removed; a run is reserved before it is created.
"""


def need_newest_status(actions: Iterable[Action]) -> bool:
    """Whether one of the actions is right only with the resource's newest status.

    An older status may lack a run that another operator has just created. The status is written before such an action,
    as that write is refused if there is a newer one.
    """
    return any(isinstance(action, AcquireLease | CreateRun | DeleteRun) for action in actions)


@dataclass(frozen=True)
class Decision:
    """What to do now, the status to write, and when to reconcile again if nothing changes.

    ``actions`` include the write of ``status`` if it differs from the existing one. Without ``requeue_at``, only a
    change of the resource can make a difference.
    """

    actions: tuple[Action, ...]
    status: Status
    requeue_at: datetime | None


def decision(
    resource: Resource,
    before: Status | None,
    status: Status,
    actions: Iterable[Action],
    requeue_at: Iterable[datetime | None] = (),
) -> Decision:
    """The actions in order, with a status write if the status has changed or must prove the snapshot current.

    Args:
        requeue_at: times of which the first counts; None is no time.
    """
    wanted, known = list(actions), before.to_dict() if before is not None else None
    if known != status.to_dict():
        status = fitted(status)
    if need_newest_status(wanted) or known != status.to_dict():
        wanted.append(WriteStatus(status, resource.metadata.resource_version))
    ordered = tuple(action for kind in get_args(Action) for action in wanted if type(action) is kind)
    return Decision(ordered, status, min(filter(None, requeue_at), default=None))
