"""The run report: all output of a job but what it writes to stores and destinations."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from messagestore_core.contract.base import ContractModel, Count, RunError, Seconds
from messagestore_core.contract.ingest import IngestOutcome, UpdateCounts
from messagestore_core.contract.purge import EraseOutcome, PurgeOutcome
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.contract.stores import TableState


class MaintainOutcome(ContractModel):
    """What maintenance did; files and bytes are those of the messages that the table refers to."""

    kind: Literal["maintain"] = "maintain"
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    table_version_before: int
    table_version_after: int
    tables_compacted: int = 0
    files_removed: int = 0
    """Files removed from storage, over all tables: no version within the retention refers to them."""
    objects_removed: int = 0
    """Objects removed: claim checks that nothing refers to, and what runs that broke off left half written."""
    kept_because: str | None = None
    """Why files and log entries that are past their retention were kept, if they were."""
    table: TableState


class DeleteOutcome(ContractModel):
    """What was deleted; empty where the store was gone already."""

    kind: Literal["delete"] = "delete"
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What else lies in the folder; it is not the store's, and stays."""


Outcome = Annotated[
    IngestOutcome | PurgeOutcome | EraseOutcome | ReplayOutcome | MaintainOutcome | DeleteOutcome,
    Field(discriminator="kind"),
]


class Usage(ContractModel):
    """What a run used.

    There are no bytes that it read: Spark doesn't count most of what tasks read of Parquet.
    """

    driver_cpu_seconds: Seconds
    """Of the driver's container since its start; where there is none, of the run's own process and its JVM."""
    executor_cpu_seconds: Seconds = 0
    """Of the tasks in executors."""
    bytes_written: Count | None = None
    """By Spark's tasks; absent where Spark did not run."""

    @property
    def cpu_seconds(self) -> float:
        """Of driver and executors."""
        return round(self.driver_cpu_seconds + self.executor_cpu_seconds, 1)


class RunProgress(ContractModel):
    """Where a run is: its step, how much of it is done in the step's own unit, and the last line for people."""

    step: str
    done: int = 0
    total: int | None = None
    unit: str | None = None
    """What is counted, such as messages; absent in reports of earlier releases."""
    text: str | None = None


class ExecutorsRefused(ContractModel):
    """A run has no executor, as the API server refuses to create any."""

    since: AwareDatetime
    message: str
    """The API server's, about the last one."""


class RunReport(ContractModel):
    """One state of one run; of several reports the one with the highest ``sequence`` counts."""

    run: str
    sequence: int
    state: Literal["Running", "Succeeded", "Failed"]
    started_at: datetime
    finished_at: datetime | None = None
    progress: RunProgress | None = None
    """While the run lasts."""
    executors_refused: ExecutorsRefused | None = None
    """While that is so."""
    outcome: Outcome | None = None
    error: RunError | None = None
    usage: Usage | None = None
    """Once it has ended; absent in reports of earlier releases."""


def counts_of(outcome: Outcome | None) -> dict[str, int]:
    """The counts of an outcome by name, for a line of a log."""
    match outcome:
        case IngestOutcome():
            done = outcome.lifecycle.counts if outcome.lifecycle else UpdateCounts()
            updates = {"updates": done.applied, "expired": done.expired} if outcome.lifecycle else {}
            return {**outcome.counts.model_dump(by_alias=True), "batches": outcome.batches, **updates}
        case PurgeOutcome():
            names = {"purged", "archived", "scrubbed", "dead_letters"}
            purged = outcome.purge.model_dump(by_alias=True, include=names) if outcome.purge else {}
            return {"selected": outcome.preview.messages, "held": outcome.preview.held, **purged}
        case EraseOutcome():
            return {"erased": outcome.erased}
        case ReplayOutcome():
            names = {"replayed", "failed", "erased", "lost", "expired"}
            progress = outcome.progress.model_dump(by_alias=True, include=names)
            return {"selected": outcome.selection.messages, **progress}
        case MaintainOutcome():
            names = {"files_before", "files_after", "files_removed", "objects_removed"}
            return outcome.model_dump(by_alias=True, include=names)
        case DeleteOutcome():
            return {"deleted": len(outcome.deleted)}
        case None:
            return {}
