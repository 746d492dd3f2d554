"""The status of a MessageStream."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import CurrentRun, FinishedRun, TriggeredStatus
from messagestore_operator.api.text import Count, Value

StreamPhase = Literal["Pending", "Running", "Idle", "Suspended", "Failing", "Stalled", "Deleting"]


class StreamTotals(StatusModel):
    """What became of all that was received; received is the sum of the next five."""

    received: Count = Field(default=0, description="Records that the source held.")
    stored: Count = Field(default=0, description="Records that became messages.")
    duplicates: Count = Field(default=0, description="Records whose message was there already.")
    dead_lettered: Count = Field(default=0, description="Records that were set aside.")
    filtered: Count = Field(default=0, description="Records that the selector didn't take.")
    discarded: Count = Field(default=0, description="Records that had expired on arrival and were dropped.")
    unknown_fields: Count = Field(
        default=0,
        description="Of those stored, records that had a field which no Native record has: a misspelt one, say.",
    )


class TableStatus(StatusModel):
    """What is in the store."""

    version: Count | None = Field(default=None, description="Version of the messages table.")
    messages: Count | None = Field(default=None, description="Messages in the store.")
    dead_letters: Count | None = Field(default=None, description="Open dead letters in the store: those not redriven.")
    bytes: Count | None = Field(default=None, description="Size of the table's files.")
    small_files: Count | None = Field(
        default=None, description="Files of the messages table that maintenance would put together."
    )
    oldest_message_time: Time | None = Field(default=None, description="Time of the oldest message.")
    newest_message_time: Time | None = Field(default=None, description="Time of the newest message.")
    last_global_position: Count | None = Field(default=None, description="The last global position given.")


class Lag(StatusModel):
    """What has arrived and isn't in the store yet."""

    as_of: Time | None = Field(default=None, description="When it was looked at.")
    files: Count | None = Field(default=None, description="Files not read yet.")
    records: Count | None = Field(default=None, description="Records not read yet.")
    oldest_pending_time: Time | None = Field(default=None, description="Since when the oldest of them waits.")
    summary: Value | None = Field(default=None, description="The same for people, such as 3 files.")


class SequencesStatus(StatusModel):
    """Message sequences in the store that are not known to be complete."""

    incomplete: Count | None = Field(
        default=None, description="Sequences without a size, or without one of their members."
    )
    overdue: Count = Field(default=0, description="Of those: the ones past spec.sequences.timeout.")
    oldest_time: Time | None = Field(default=None, description="Time of the earliest message of all of them.")
    oldest_id: Value | None = Field(default=None, description="The sequence that this message belongs to.")


class UnfinishedMessages(StatusModel):
    """Messages that may still change, by status."""

    received: Count = Field(default=0, description="Nobody has begun with them.")
    processing: Count = Field(default=0, description="Somebody works on them, or they were sent for a retry.")
    failed: Count = Field(default=0, description="They failed, and have a retry left.")


class LifecycleStatus(StatusModel):
    """What became of status updates, over the store's life."""

    received: Count = Field(default=0, description="Records that the source of updates held.")
    applied: Count = Field(default=0, description="Updates that changed a message.")
    stale: Count = Field(default=0, description="Updates that changed nothing: late ones, or repeated ones.")
    pending: Count = Field(default=0, description="Updates that wait for their message.")
    dead_lettered: Count = Field(
        default=0, description="Records that were no update, and updates whose message never came."
    )
    exhausted: Count = Field(default=0, description="Messages that failed and had no retry left.")
    expired: Count = Field(default=0, description="Messages that became EXPIRED when their time had passed.")
    retried: Count = Field(default=0, description="Messages out of retries that an update gave one more try.")
    timed_out: Count = Field(default=0, description="Attempts that failed by lifecycle.processingTimeout.")
    unfinished: UnfinishedMessages | None = Field(default=None, description="Messages that may still change.")
    lag: Value | None = Field(default=None, description="Updates not read yet, such as 3 files.")


class LossStatus(StatusModel):
    """Records of Kafka that were gone before they were read; the others tell of the last ones that were found."""

    records: Count | None = Field(default=None, description="Offsets over the stream's life, as far as they tell.")
    at: Time | None = Field(default=None, description="When the last ones were found gone.")
    topic: Value | None = Field(default=None, description="Their topic.")
    partition: Count | None = Field(default=None, description="Their partition.")
    start: Count | None = Field(default=None, description="The first offset that is gone.")
    end: Count | None = Field(default=None, description="The first offset behind them.")
    reason: Literal["Retention", "TopicDeleted"] | None = Field(
        default=None, description="Retention took them, or the topic was deleted."
    )


class StreamRun(FinishedRun):
    """A run of the stream that has ended, with what became of its records."""

    received: Count = Field(default=0, description="Records that the source held.")
    stored: Count = Field(default=0, description="Records that became messages.")
    duplicates: Count = Field(default=0, description="Records whose message was there already.")
    dead_lettered: Count = Field(default=0, description="Records that were set aside.")
    filtered: Count = Field(default=0, description="Records that the selector didn't take.")
    discarded: Count = Field(default=0, description="Records that had expired on arrival and were dropped.")
    unknown_fields: Count = Field(
        default=0, description="Of those stored, records that had a field which no Native record has."
    )
    updates: Count = Field(default=0, description="Status updates that were applied.")
    expired: Count = Field(default=0, description="Messages that became EXPIRED.")


class MaintenanceStatus(StatusModel):
    """When the tables were last compacted and cleaned."""

    at: Time | None = Field(default=None, description="When the last maintenance run ended.")
    table_version: Count | None = Field(default=None, description="Version of the messages table after it.")
    small_files: Count | None = Field(default=None, description="Small files that it left.")
    last_run: FinishedRun | None = Field(default=None, description="The maintenance run that ended last.")
    asked: Count | None = Field(
        default=None, description="Version of the messages table at which a continuous run was asked for the last."
    )


class MessageStreamStatus(TriggeredStatus):
    """What came of a stream."""

    phase: StreamPhase | None = Field(default=None, description="State of the stream, for people.")
    totals: StreamTotals | None = Field(default=None, description="What became of all that was received.")
    table: TableStatus | None = Field(default=None, description="What is in the store.")
    sequences: SequencesStatus | None = Field(
        default=None, description="Message sequences that are not complete; absent where no message belongs to one."
    )
    lag: Lag | None = Field(default=None, description="What has arrived and isn't in the store yet.")
    lifecycle: LifecycleStatus | None = Field(default=None, description="What became of status updates.")
    loss: LossStatus | None = Field(
        default=None, description="Records of Kafka that were gone before they were read; absent: none."
    )
    current_run: CurrentRun | None = Field(default=None, description="The run that is under way.")
    last_run: StreamRun | None = Field(default=None, description="The run that ended last.")
    last_batch_time: Time | None = Field(default=None, description="When the last batch was committed.")
    maintenance: MaintenanceStatus | None = Field(
        default=None, description="When the tables were last compacted and cleaned."
    )
    recent_runs: Annotated[tuple[StreamRun, ...], Field(max_length=100)] = Field(
        default=(), description="Ended runs, the newest first."
    )
