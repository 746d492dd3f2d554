"""The status of a RetentionPolicy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import CurrentRun, FinishedRun, RunError, TriggeredStatus
from messagestore_operator.api.text import Count, Flag, Name, UniqueNames, Value

PolicyPhase = Literal["Pending", "Previewing", "AwaitingApproval", "Running", "Idle", "Suspended", "Failing", "Stalled"]


class Preview(StatusModel):
    """What a purge would remove."""

    id: Value = Field(description="Identifier of the preview, for its approval.")
    table_version: Count | None = Field(default=None, description="Version of the messages table that was looked at.")
    as_of: Time | None = Field(default=None, description="When it was looked at.")
    messages: Count = Field(default=0, description="Messages that would go.")
    bytes: Count = Field(default=0, description="Size of their payloads.")
    oldest: Time | None = Field(default=None, description="Time of the oldest of them.")
    newest: Time | None = Field(default=None, description="Time of the newest of them.")
    by_rule: Annotated[dict[str, Count], Field(max_length=64)] = Field(
        default={}, description="Messages that each rule selects; several rules may select the same one."
    )
    held: Count = Field(default=0, description="Messages that a rule selects and a hold keeps.")
    undecided: Count = Field(
        default=0,
        description="Messages that stay as a rule's predicate can't be told on them, such as one on a payload under a "
        "claim check.",
    )
    dead_letters: Count = Field(default=0, description="Dead letters that would go.")


class LastPurge(StatusModel):
    """What the last purge did."""

    run: Value = Field(description="Name of the run.")
    at: Time | None = Field(default=None, description="When it was done.")
    table_version_before: Count | None = Field(default=None, description="Version of the messages table before it.")
    table_version_after: Count | None = Field(default=None, description="Version of the messages table after it.")
    purged: Count = Field(default=0, description="Messages that were removed.")
    archived: Count = Field(default=0, description="Messages that were archived before.")
    scrubbed: Count = Field(default=0, description="Messages that were scrubbed.")
    held: Count = Field(default=0, description="Messages that a hold kept.")
    dead_letters: Count = Field(default=0, description="Dead letters that were removed.")
    erased_at: Time | None = Field(default=None, description="When the bytes of what was erased or scrubbed were gone.")
    erase_due_by: Time | None = Field(default=None, description="By when they must be gone.")
    not_erased: Annotated[tuple[Value, ...], Field(max_length=8)] = Field(
        default=(), description="Where copies of erased messages may be that no erasure reaches."
    )


class PolicyStreamStatus(StatusModel):
    """What came of the policy on one stream."""

    name: Name = Field(description="Name of the MessageStream.")
    preview: Preview | None = Field(default=None, description="What a purge would remove.")
    last_purge: LastPurge | None = Field(default=None, description="What the last purge did.")
    current_run: CurrentRun | None = Field(default=None, description="The run that is under way.")
    last_run: FinishedRun | None = Field(default=None, description="The run that ended last.")
    error: RunError | None = Field(default=None, description="What keeps the policy from this stream.")
    awaiting_approval: Flag = Field(default=False, description="Whether the preview waits for its approval.")
    round: Count = Field(default=0, description="The last round of the policy that was ended here.")


class RetentionPolicyStatus(TriggeredStatus):
    """What came of a policy."""

    phase: PolicyPhase | None = Field(default=None, description="State of the policy, for people.")
    streams: Annotated[tuple[PolicyStreamStatus, ...], Field(max_length=100), UniqueNames()] = Field(
        default=(), description="What came of it, stream by stream."
    )
    stream_summary: Value | None = Field(default=None, description="The stream's name, or how many there are.")
    held: Count | None = Field(default=None, description="Messages that holds keep, over all streams.")
    purged: Count | None = Field(default=None, description="Messages that the last purges removed, over all streams.")
    last_purge_time: Time | None = Field(default=None, description="When the last purge was done.")
    round: Count = Field(default=0, description="How often the policy was triggered.")
