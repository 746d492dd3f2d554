"""What a decision asks for. Nothing here does anything.

The actions of a decision are done in their order, and the first that fails ends it: then a new snapshot is taken and
decided anew. Each is idempotent, so that an operator killed between two of them goes on by deciding again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStreamStatus, ReplayJobStatus, RetentionPolicyStatus
from messagestore_operator.api.spark import Spark
from messagestore_operator.decide.run_queue import RunSlot
from messagestore_operator.decide.snapshot import DriverControl, RunRef, TableKey
from messagestore_operator.translate import SecretVariable, StorageAccess

Status = MessageStreamStatus | RetentionPolicyStatus | ReplayJobStatus


@dataclass(frozen=True)
class WriteStatus:
    """Replace the resource's status, on condition that it still has this resource version.

    It reserves run numbers, and records what came of runs. Before a run is launched it is there even where it changes
    nothing: then it must still be sent, because it proves that the snapshot was no older than the resource. A conflict
    ends the decision.
    """

    status: Status
    resource_version: str | None


@dataclass(frozen=True)
class AcquireLease:
    """Give a table to a run: the holder, and `epoch` as leaseTransitions.

    On condition that the Lease still has this resource version, or, for None, that there is none: then it is made.
    A conflict ends the decision. It is asked for only where the lease is free or its holder is known to be gone.
    """

    table: TableKey
    holder: str
    epoch: int
    resource_version: str | None


@dataclass(frozen=True)
class ReleaseLease:
    """Release a table: clear the holder, keep the epoch, note the time. Nothing happens where another run holds it.

    The resources that wait for the table are reconciled afterwards.
    """

    table: TableKey
    holder: str
    resource_version: str | None


@dataclass(frozen=True)
class CreateRun:
    """Make a run's ConfigMap, Role, RoleBinding and application, each named `run.name`; what is there already stays.

    An application that is there already is the same run, made before the operator was killed: that is success.
    """

    run: RunRef
    document: RunDocument
    control: DriverControl
    access: StorageAccess
    """What its pods need of Secrets to reach storage."""
    variables: tuple[SecretVariable, ...] = ()
    """What its pods need of Secrets besides, such as a scrub key."""
    spark: Spark | None = None
    slot: RunSlot | None = None
    """How it counts in the run queue."""


@dataclass(frozen=True)
class AwaitRoom:
    """Put a reserved run into the queue; its resource is reconciled once a slot is free."""

    slot: RunSlot


@dataclass(frozen=True)
class DeleteRun:
    """Delete a run's application, and with it all that it owns; one that is gone already is success."""

    namespace: str
    name: str


@dataclass(frozen=True)
class SetControl:
    """Write `control.json` of a run; a ConfigMap that is gone is success."""

    namespace: str
    name: str
    control: DriverControl


@dataclass(frozen=True)
class EmitEvent:
    """Send an Event. `reason` is one of `reasons.Reason`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True)
class AddFinalizer:
    """Keep the resource until its data is deleted."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """Let the resource go."""


@dataclass(frozen=True)
class DeleteResource:
    """Delete the resource, on condition that it still has this uid."""

    uid: str | None


Action = (
    WriteStatus
    | AcquireLease
    | ReleaseLease
    | AwaitRoom
    | CreateRun
    | DeleteRun
    | SetControl
    | EmitEvent
    | AddFinalizer
    | RemoveFinalizer
    | DeleteResource
)


def need_newest_status(actions: Iterable[Action]) -> bool:
    """Whether one of the actions is right only by the resource's newest status.

    An older one may not know yet of a run that another operator has just made. The status is written before such an
    action, as that is refused where there is a newer one.
    """
    return any(isinstance(action, AcquireLease | CreateRun | DeleteRun) for action in actions)


@dataclass(frozen=True)
class Decision:
    """What to do now, the status to write, and when to reconcile again if nothing changes.

    `actions` hold the writing of `status` where it differs from what is there. No time to look again means that only a
    change of the resource can make a difference.
    """

    actions: tuple[Action, ...]
    status: Status
    look_again: datetime | None

    @property
    def events(self) -> tuple[EmitEvent, ...]:
        """The Events among the actions."""
        return tuple(action for action in self.actions if isinstance(action, EmitEvent))
