"""The run document: all input of a job."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import EraseTask, Hold, PurgeTask
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.stores import StorageEntry, Table


class Resource(ContractModel):
    """The resource that asks for a run; the audit names it."""

    kind: Literal["MessageStream", "RetentionPolicy", "ReplayJob"]
    namespace: str
    name: str
    generation: int = 1
    requested_by: str | None = None
    """Who wrote its spec; absent where that is unknown."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name


class MaintainTask(ContractModel):
    """Keep the tables fast: compact small files, write checkpoints, remove what nothing refers to any more."""

    kind: Literal["maintain"] = "maintain"
    target_file_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """About how large files become; those of three quarters of it and more are left as they are."""
    log_retention: timedelta = timedelta(days=30)
    """How long a table's log keeps earlier versions."""
    deleted_file_retention: timedelta = timedelta(days=7)
    """How long a removed file stays for readers of earlier versions."""
    oldest_replay: datetime | None = None
    """When the oldest replay of this store that has not ended froze its selection; absent: there is none."""


class DeleteTask(ContractModel):
    """Delete the store: its tables, its objects, and last its marker."""

    kind: Literal["delete"] = "delete"
    holds: tuple[Hold, ...] = ()


class RunDocument(ContractModel):
    """One run: who asks for it, the table, the task, and the time that all time rules see."""

    run: str
    resource: Resource
    table: Table
    at: datetime | None = None
    """Absent: the wall clock."""
    storage: tuple[StorageEntry, ...] = ()
    """One entry per bucket; without one, the pod's own identity and the default endpoint are used."""
    task: Annotated[
        IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask | DeleteTask, Field(discriminator="kind")
    ]
