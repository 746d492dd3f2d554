"""Parts of a status that more than one kind has."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import Count, Seconds, Value
from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time, UniqueNames

RunState = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]
LONGEST_NOTE = 32768
Note = Annotated[str, Field(strict=True, max_length=LONGEST_NOTE)]


class Condition(StatusModel):
    """A Kubernetes condition."""

    type: Annotated[str, Field(strict=True, min_length=1, max_length=316)] = Field(description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="Status: True, False or Unknown.")
    reason: Annotated[str, Field(strict=True, max_length=1024)] = Field(
        default="", description="Reason, a constant for machines."
    )
    message: Note = Field(default="", description="Message for people.")
    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that the condition is about."
    )
    last_transition_time: Time | None = Field(default=None, description="When the status last changed.")


Conditions = Annotated[tuple[Condition, ...], Field(max_length=16), UniqueNames("type")]


class RunError(StatusModel):
    """Why a run failed."""

    reason: Value = Field(description="Reason, a constant for machines.")
    message: Note = Field(default="", description="Message for people.")


class LastingFailure(StatusModel):
    """A failure that goes on until somebody changes something outside of the resource, such as wrong keys."""

    reason: Value = Field(description="Reason, a constant for machines.")
    since: Time = Field(description="When it was first found.")
    attempts: Count = Field(default=0, description="Runs that ended with it, one after the other.")


KnownFailure = Annotated[
    LastingFailure | None,
    Field(description="A failure that goes on until somebody changes something, such as wrong keys."),
]


class CurrentRun(StatusModel):
    """The run in progress."""

    name: Value = Field(description="Name of the run.")
    kind: Value | None = Field(default=None, description="Kind of the run, such as ingest or purge.")
    state: RunState = Field(default="Pending", description="State of the run.")
    attempt: Count = Field(default=1, description="Number of this attempt, from one.")
    started_at: Time | None = Field(default=None, description="When the run started.")
    number: Count | None = Field(default=None, description="Number of the run, counted for each resource.")
    generation: Count | None = Field(default=None, description="Generation of the spec that the run was made from.")
    requested_at: Time | None = Field(
        default=None, description="When the run was requested. Runs that wait for a table get it in this order."
    )
    launched_at: Time | None = Field(default=None, description="When its Spark application was created.")
    stop_requested_at: Time | None = Field(default=None, description="When it was asked to stop after its batch.")
    ending: RunError | None = Field(default=None, description="Why the run is being ended.")
    progress: Value | None = Field(default=None, description="Progress for people, such as remove: 3 of 40 messages.")


class FinishedRun(StatusModel):
    """An ended run."""

    name: Value = Field(description="Name of the run.")
    kind: Value | None = Field(default=None, description="Kind of the run, such as ingest or purge.")
    state: RunState = Field(description="How the run ended.")
    attempt: Count = Field(default=1, description="Number of this attempt, from one.")
    started_at: Time | None = Field(default=None, description="When the run started.")
    finished_at: Time | None = Field(default=None, description="When the run ended.")
    error: RunError | None = Field(default=None, description="Why the run failed.")
    generation: Count | None = Field(default=None, description="Generation of the spec that the run was made from.")
    cpu_seconds: Seconds | None = Field(
        default=None, description="CPU time of its driver and of the tasks in executors, in seconds."
    )
    bytes_written: Count | None = Field(
        default=None, description="Bytes that Spark's tasks wrote. Absent if Spark did not run."
    )


class BaseStatus(StatusModel):
    """The common part of all statuses."""

    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that the status is about."
    )
    conditions: Conditions = Field(default=(), description="Conditions of the resource.")
    run_number: Count | None = Field(default=None, description="Number of the last run.")


class TriggeredStatus(BaseStatus):
    """The common part of statuses of resources with triggered runs."""

    next_run_time: Time | None = Field(default=None, description="When the next run is due.")
    last_schedule_time: Time | None = Field(
        default=None, description="The latest time of the schedule that was handled."
    )
    last_handled_request: Value | None = Field(
        default=None, description="The last handled value of annotation messagestore.dev/run-requested."
    )
