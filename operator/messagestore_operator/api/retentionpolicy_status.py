"""The status of a RetentionPolicy."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import Count, Flag, Value
from messagestore_operator.api.messagestream_status import TableStatus
from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Name, Time, UniqueNames
from messagestore_operator.api.status import CurrentRun, FinishedRun, KnownFailure, RunError, TriggeredStatus

PolicyPhase = Literal["Pending", "Previewing", "AwaitingApproval", "Running", "Idle", "Suspended", "Failing", "Stalled"]


class Unsent(StatusModel):
    """A subscription or consumer of the store: what a purge leaves for it, or takes from it."""

    name: Value = Field(
        description="Name of the ReplayJob. Of another namespace: namespace, slash and name. Of consumers: consumer, "
        "colon and name."
    )
    global_position: Count | None = Field(
        default=None, description="The last global position that it has passed. If absent, it has no cursor."
    )
    waiting: Count = Field(default=0, description="Messages that stay until it has passed them.")
    waiting_since: Time | None = Field(default=None, description="Since when the first of them waits.")
    missed: Count = Field(default=0, description="Messages that leave before it has passed them.")


class Preview(StatusModel):
    """What a purge would remove."""

    id: Value = Field(description="Identifier of the preview, for its approval.")
    table_version: Count | None = Field(default=None, description="Version of the messages table that was read.")
    as_of: Time | None = Field(default=None, description="When the preview was made.")
    messages: Count = Field(default=0, description="Messages that would be removed or scrubbed.")
    bytes: Count = Field(default=0, description="Size of their payloads.")
    oldest: Time | None = Field(default=None, description="Time of the oldest of them.")
    newest: Time | None = Field(default=None, description="Time of the newest of them.")
    by_rule: Annotated[dict[str, Count], Field(max_length=64)] = Field(
        default={}, description="Messages that each rule selects. Several rules may select the same message."
    )
    held: Count = Field(default=0, description="Messages that a rule selects and a hold covers.")
    undecided: Count = Field(
        default=0,
        description="Messages that stay because a rule's predicate can't be evaluated for them, such as on a payload "
        "under a claim check.",
    )
    dead_letters: Count = Field(default=0, description="Dead letters that would be removed.")
    subscriptions: Annotated[tuple[Unsent, ...], Field(max_length=64), UniqueNames()] = Field(
        default=(), description="Subscriptions and consumers that consumedBy names, and those that would miss messages."
    )


class LastPurge(StatusModel):
    """What the last purge did."""

    run: Value = Field(description="Name of the run.")
    preview: Value | None = Field(default=None, description="Identifier of the preview that it carried out.")
    at: Time | None = Field(default=None, description="When the purge ended.")
    table_version_before: Count | None = Field(default=None, description="Version of the messages table before it.")
    table_version_after: Count | None = Field(default=None, description="Version of the messages table after it.")
    purged: Count = Field(default=0, description="Messages removed.")
    archived: Count = Field(default=0, description="Messages archived before their removal.")
    scrubbed: Count = Field(default=0, description="Messages scrubbed.")
    held: Count = Field(default=0, description="Messages kept by a hold.")
    dead_letters: Count = Field(default=0, description="Dead letters removed.")
    erased_at: Time | None = Field(default=None, description="When the erased or scrubbed bytes were gone.")
    erase_due_by: Time | None = Field(default=None, description="Deadline by which bytes that are left must be gone.")
    tombstones_version: Count | None = Field(
        default=None, description="Version of table tombstones in which all that it erased has one."
    )
    possible_copies: Annotated[tuple[Value, ...], Field(max_length=8)] = Field(
        default=(), description="Places outside the store that may hold copies of erased messages."
    )


class PolicyStreamStatus(StatusModel):
    """The observed state of the policy on one stream."""

    name: Name = Field(description="Name of the MessageStream.")
    preview: Preview | None = Field(default=None, description="What a purge would remove.")
    last_purge: LastPurge | None = Field(default=None, description="What the last purge did.")
    current_run: CurrentRun | None = Field(default=None, description="The run in progress.")
    last_run: FinishedRun | None = Field(default=None, description="The last run that ended.")
    table: TableStatus | None = Field(default=None, description="Contents of the store after that run.")
    error: RunError | None = Field(default=None, description="Why the policy can't be applied to this stream.")
    lasting_failure: KnownFailure = None
    awaiting_approval: Flag = Field(default=False, description="Whether the preview waits for approval.")
    round: Count = Field(default=0, description="Number of the last policy round that finished on this stream.")


class RetentionPolicyStatus(TriggeredStatus):
    """The observed state of a policy."""

    phase: PolicyPhase | None = Field(default=None, description="State of the policy in one word, for people.")
    streams: Annotated[tuple[PolicyStreamStatus, ...], Field(max_length=100), UniqueNames()] = Field(
        default=(), description="The observed state for each stream."
    )
    stream_summary: Value | None = Field(default=None, description="Name of the stream, or the number of streams.")
    held: Count | None = Field(default=None, description="Messages that holds cover, in all streams.")
    purged: Count | None = Field(default=None, description="Messages that the last purges removed, in all streams.")
    last_purge_time: Time | None = Field(default=None, description="When the last purge ended.")
    round: Count = Field(default=0, description="Number of times that the policy was triggered.")
