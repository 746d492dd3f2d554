"""The status of a ReplayJob."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import CurrentRun, FinishedRun, RunError, TriggeredStatus
from messagestore_operator.api.text import Count, Value

ReplayPhase = Literal[
    "Pending", "Previewing", "Running", "Paused", "Succeeded", "Failed", "Cancelled", "Idle", "Failing", "Stalled"
]


class Selection(StatusModel):
    """What is replayed, frozen at the start."""

    table_version: Count | None = Field(default=None, description="Version of the table that is read.")
    messages: Count = Field(default=0, description="Messages that were selected.")
    bytes: Count = Field(default=0, description="Size of their payloads.")
    first_global_position: Count | None = Field(default=None, description="Lowest global position among them.")
    last_global_position: Count | None = Field(default=None, description="Highest global position among them.")


class Progress(StatusModel):
    """How far the replay has come."""

    replayed: Count = Field(default=0, description="Messages that were sent.")
    failed: Count = Field(default=0, description="Messages that couldn't be sent, as they are not as they were stored.")
    first_failed_positions: Annotated[tuple[Count, ...], Field(max_length=10)] = Field(
        default=(), description="The lowest global positions of those."
    )
    stored: Count | None = Field(
        default=None, description="Of dead letters that were sent to a stream: those that it took in."
    )
    dead_lettered: Count | None = Field(default=None, description="Of those: the ones that it set aside again.")
    duplicates: Count | None = Field(
        default=None, description="Of those: the others, which it had already, or passed over."
    )
    erased: Count = Field(default=0, description="Messages that were selected, and have been erased since.")
    lost: Count = Field(
        default=0, description="Messages that were selected, and are neither in the store any more nor erased."
    )
    first_lost_positions: Annotated[tuple[Count, ...], Field(max_length=10)] = Field(
        default=(), description="The lowest global positions of those."
    )
    percent: Annotated[int, Field(strict=True, ge=0, le=100)] = Field(default=0, description="Share of the selection.")
    last_global_position: Count | None = Field(default=None, description="Global position of the last one sent.")
    messages_per_second: Annotated[float, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Messages sent in a second."
    )


class ReplayJobStatus(TriggeredStatus):
    """What came of a replay."""

    phase: ReplayPhase | None = Field(default=None, description="State of the replay, for people.")
    selection: Selection | None = Field(default=None, description="What is replayed, frozen at the start.")
    progress: Progress | None = Field(default=None, description="How far it has come.")
    destination: Value | None = Field(default=None, description="Where it goes, in short.")
    current_run: CurrentRun | None = Field(default=None, description="The run that is under way.")
    last_run: FinishedRun | None = Field(default=None, description="The run that ended last.")
    round: Count | None = Field(
        default=None, description="With a trigger: the last selection that was sent, counted from one."
    )
    redelivered: Count | None = Field(default=None, description="With a trigger: messages sent, over all selections.")
    recent_runs: Annotated[tuple[FinishedRun, ...], Field(max_length=100)] = Field(
        default=(), description="With a trigger: ended runs, the newest first."
    )
    attempts: Count | None = Field(default=None, description="Tries that were made.")
    failures: Count = Field(default=0, description="Tries that failed.")
    error: RunError | None = Field(default=None, description="Why the last try failed.")
    started_at: Time | None = Field(default=None, description="When it was started.")
    finished_at: Time | None = Field(default=None, description="When it ended.")
    paused_at: Time | None = Field(default=None, description="Since when it pauses.")
    paused_seconds: Count = Field(
        default=0, description="How long it paused before; no part of the time that it may take."
    )
