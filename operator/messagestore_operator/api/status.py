"""Parts of a status that more than one kind has."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.text import Count, Note, UniqueNames, Value

RunState = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]


class Condition(StatusModel):
    """One aspect of the resource's state, by Kubernetes' convention."""

    type: Annotated[str, Field(strict=True, min_length=1, max_length=316)] = Field(description="What is spoken of.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: Annotated[str, Field(strict=True, max_length=1024)] = Field(
        default="", description="Why, as a constant for machines."
    )
    message: Note = Field(default="", description="Why, in words for people.")
    observed_generation: Count | None = Field(default=None, description="Generation of the spec that it is about.")
    last_transition_time: Time | None = Field(default=None, description="When the status last changed.")


Conditions = Annotated[tuple[Condition, ...], Field(max_length=16), UniqueNames("type")]


class RunError(StatusModel):
    """Why a run failed."""

    reason: Value = Field(description="The reason, as a constant for machines.")
    message: Note = Field(default="", description="What happened, in words for people.")


class CurrentRun(StatusModel):
    """The run that is under way."""

    name: Value = Field(description="Name of the run.")
    kind: Value | None = Field(default=None, description="Kind of the run, such as ingest or purge.")
    state: RunState = Field(default="Pending", description="How far it has come.")
    attempt: Count = Field(default=1, description="Which try it is, counted from one.")
    started_at: Time | None = Field(default=None, description="When it was started.")
    number: Count | None = Field(default=None, description="Number of the run, counted over all of the resource.")
    generation: Count | None = Field(default=None, description="Generation of the spec that it was made from.")
    requested_at: Time | None = Field(
        default=None, description="When its number was reserved; whoever waits for a table is served in this order."
    )
    launched_at: Time | None = Field(default=None, description="When its Spark application was made.")
    stop_requested_at: Time | None = Field(default=None, description="When it was asked to end after its batch.")
    ending: RunError | None = Field(default=None, description="Why it is being ended.")
    progress: Value | None = Field(default=None, description="Where it is, for people, such as remove: 3 of 40.")


class FinishedRun(StatusModel):
    """A run that has ended."""

    name: Value = Field(description="Name of the run.")
    kind: Value | None = Field(default=None, description="Kind of the run, such as ingest or purge.")
    state: RunState = Field(description="How it ended.")
    attempt: Count = Field(default=1, description="Which try it was, counted from one.")
    started_at: Time | None = Field(default=None, description="When it was started.")
    finished_at: Time | None = Field(default=None, description="When it ended.")
    error: RunError | None = Field(default=None, description="Why it failed.")
    generation: Count | None = Field(default=None, description="Generation of the spec that it was made from.")


class BaseStatus(StatusModel):
    """What every status begins with."""

    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that the status is about."
    )
    conditions: Conditions = Field(default=(), description="State of the resource, for machines.")
    run_number: Count | None = Field(default=None, description="Number of the last run that was reserved.")


class TriggeredStatus(BaseStatus):
    """What the status of a resource remembers whose runs are triggered."""

    next_run_time: Time | None = Field(default=None, description="When the next run is due.")
    last_schedule_time: Time | None = Field(
        default=None, description="The latest point in time of the schedule that has been dealt with."
    )
    last_request: Value | None = Field(
        default=None, description="The value of annotation messagestore.dev/run-requested that was last acted on."
    )
