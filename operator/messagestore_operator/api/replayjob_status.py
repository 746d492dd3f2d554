"""The status of a ReplayJob."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import Count, Flag, Value
from messagestore_operator.api.messagestream_status import TableStatus
from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import (
    Conditions,
    CurrentRun,
    FinishedRun,
    KnownFailure,
    Note,
    RunError,
    TriggeredStatus,
)

ReplayPhase = Literal[
    "Pending", "Previewing", "Running", "Paused", "Succeeded", "Failed", "Cancelled", "Idle", "Failing", "Stalled"
]


Finding = Annotated[str, Field(strict=True, max_length=1024)]


class Selection(StatusModel):
    """What is replayed, fixed when the replay starts."""

    table_version: Count | None = Field(default=None, description="Version of the table that is read.")
    messages: Count = Field(default=0, description="Messages selected.")
    bytes: Count = Field(default=0, description="Size of their payloads.")
    first_global_position: Count | None = Field(default=None, description="Lowest global position among them.")
    last_global_position: Count | None = Field(default=None, description="Highest global position among them.")


class Progress(StatusModel):
    """Progress of the replay."""

    replayed: Count = Field(default=0, description="Messages sent.")
    failed: Count = Field(default=0, description="Messages not sent because they no longer match what was stored.")
    first_failed_positions: Annotated[tuple[Count, ...], Field(max_length=10)] = Field(
        default=(), description="The lowest global positions of those."
    )
    stored: Count | None = Field(default=None, description="Redriven dead letters that the stream stored.")
    dead_lettered: Count | None = Field(
        default=None, description="Redriven dead letters that became dead letters again."
    )
    duplicates: Count | None = Field(
        default=None, description="Redriven dead letters that the stream already had or skipped."
    )
    erased: Count = Field(default=0, description="Selected messages that were erased since.")
    lost: Count = Field(default=0, description="Selected messages that left the store since, other than by erasure.")
    first_lost_positions: Annotated[tuple[Count, ...], Field(max_length=10)] = Field(
        default=(), description="The lowest global positions of those."
    )
    missed: Count = Field(default=0, description="With start: messages that a purge removed before they were selected.")
    expired: Count = Field(default=0, description="Selected messages that were skipped because they had expired.")
    withheld: Count = Field(
        default=0,
        description="With envelope Original: matching messages that are not sent, as their record was not kept, or "
        "was scrubbed.",
    )
    set_aside: Count = Field(default=0, description="Messages that an HTTP endpoint refused, and that were set aside.")
    percent: Annotated[int, Field(strict=True, ge=0, le=100)] = Field(
        default=0, description="Percentage of the selection that was handled."
    )
    last_global_position: Count | None = Field(default=None, description="Global position of the last message sent.")
    messages_per_second: Annotated[float, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Messages sent per second."
    )


class CursorStatus(StatusModel):
    """How far a subscription has sent."""

    global_position: Count = Field(default=0, description="The last global position that was sent, or passed over.")
    resets: Count = Field(default=0, description="How often annotation messagestore.dev/reset-to has moved the cursor.")
    missed: Count = Field(
        default=0, description="Messages that a purge removed before they were sent, selected or not."
    )
    erased: Count = Field(default=0, description="Messages that were erased before they were sent.")
    expired: Count = Field(default=0, description="Selected messages that were skipped because they had expired.")
    set_aside: Count = Field(default=0, description="Messages that an HTTP endpoint refused, and that were set aside.")
    waiting: Count = Field(
        default=0, description="Messages up to globalPosition that wait for others of their sequences."
    )
    first_waiting: Count | None = Field(default=None, description="The global position of the first that waits.")


class SubscriptionLag(StatusModel):
    """What is behind the cursor."""

    as_of: Time | None = Field(default=None, description="When the store was last looked at.")
    records: Count | None = Field(default=None, description="Selected messages that are not sent yet.")
    oldest_pending_time: Time | None = Field(default=None, description="When the oldest of them was stored.")


class DestinationFailure(StatusModel):
    """Why one of several destinations was not sent to, or not to the end."""

    reason: Value = Field(description="Reason, a constant for machines.")
    message: Note = Field(default="", description="Message for people.")
    since: Time = Field(description="When it first failed for this reason.")
    last_attempt_time: Time = Field(description="When the last run that tried it ended.")
    attempts: Count = Field(default=1, description="Runs that tried it and failed, one after the other.")
    generation: Count | None = Field(default=None, description="Generation of the spec that it was tried with.")
    retry_requested: Flag = Field(
        default=False, description="Whether a try was asked for since, by an annotation: it doesn't wait then."
    )


class DestinationStatus(StatusModel):
    """One destination of a subscription."""

    name: Value = Field(default="", description="Its name; empty if there is only one.")
    cursor: CursorStatus | None = Field(default=None, description="How far it is.")
    lag: SubscriptionLag | None = Field(default=None, description="What is behind the cursor.")
    failure: DestinationFailure | None = Field(
        default=None, description="Of several destinations: why the last try failed."
    )
    conditions: Conditions = Field(
        default=(), description="Ready: whether it takes what is sent. Stalled: only a change by somebody can help."
    )


class ReplayJobStatus(TriggeredStatus):
    """The observed state of a replay."""

    phase: ReplayPhase | None = Field(default=None, description="State of the replay in one word, for people.")
    selection: Selection | None = Field(default=None, description="What is replayed, fixed when the replay starts.")
    progress: Progress | None = Field(default=None, description="Progress of the replay.")
    findings: Annotated[tuple[Finding, ...], Field(max_length=20)] = Field(
        default=(),
        description="With mode DryRun and envelope Original: what would differ from the topic that the records came "
        "from, or fail, in words.",
    )
    table: TableStatus | None = Field(
        default=None, description="Contents of the store that was read, after a run that wrote to it."
    )
    target_table: TableStatus | None = Field(
        default=None, description="Contents of another stream's store that was written to, after the last run."
    )
    destination: Value | None = Field(default=None, description="Destination in short, such as kafka/orders.")
    current_run: CurrentRun | None = Field(default=None, description="The run in progress.")
    last_run: FinishedRun | None = Field(default=None, description="The last run that ended.")
    round: Count | None = Field(
        default=None, description="With a trigger: number of the last selection that was sent, from one."
    )
    replayed_total: Count | None = Field(default=None, description="With a trigger: messages sent, in all selections.")
    destinations: Annotated[tuple[DestinationStatus, ...], Field(max_length=16)] = Field(
        default=(), description="With start: how far each destination is."
    )
    last_handled_reset: Value | None = Field(
        default=None, description="The last handled value of annotation messagestore.dev/reset-to."
    )
    recent_runs: Annotated[tuple[FinishedRun, ...], Field(max_length=100)] = Field(
        default=(), description="With a trigger: ended runs, the newest first."
    )
    attempts: Count | None = Field(default=None, description="Number of runs that ended.")
    failures: Count = Field(default=0, description="Number of runs that failed.")
    error: RunError | None = Field(default=None, description="Why the last run failed.")
    lasting_failure: KnownFailure = None
    started_at: Time | None = Field(default=None, description="When the replay started.")
    finished_at: Time | None = Field(default=None, description="When the replay ended.")
    paused_at: Time | None = Field(default=None, description="When the current pause began.")
    paused_seconds: Count = Field(
        default=0, description="Total earlier pause time. It does not count towards activeDeadline."
    )
