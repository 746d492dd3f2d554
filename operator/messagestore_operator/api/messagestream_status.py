"""The status of a MessageStream."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import Count, Flag, Seconds, Value
from messagestore_operator.api.model import StatusModel
from messagestore_operator.api.scalars import Time
from messagestore_operator.api.status import CurrentRun, FinishedRun, KnownFailure, TriggeredStatus

StreamPhase = Literal["Pending", "Running", "Idle", "Suspended", "Failing", "Stalled", "Deleting"]


class StreamTotals(StatusModel):
    """Counts of all records received. received is the sum of the next five."""

    received: Count = Field(default=0, description="Records read from the source.")
    stored: Count = Field(default=0, description="Records that became messages.")
    duplicates: Count = Field(default=0, description="Records of messages that were already stored.")
    dead_lettered: Count = Field(default=0, description="Records that became dead letters.")
    filtered: Count = Field(default=0, description="Records that the filter dropped.")
    discarded: Count = Field(default=0, description="Records dropped because they had expired on arrival.")
    unknown_fields: Count = Field(
        default=0,
        description="Stored records with an unknown field, such as a misspelt one. The field itself is not stored.",
    )


class ReasonCount(StatusModel):
    """A reason of dead letters, with their number."""

    reason: Value = Field(description="Reason, a constant.")
    count: Count = Field(description="Dead letters with this reason that were not redriven.")


class TableStatus(StatusModel):
    """Contents of the store."""

    version: Count | None = Field(default=None, description="Version of the messages table.")
    epoch: Count | None = Field(default=None, description="Number of the last grant under which it was written.")
    messages: Count | None = Field(default=None, description="Messages in the store.")
    dead_letters: Count | None = Field(default=None, description="Dead letters in the store that were not redriven.")
    dead_letters_by_reason: Annotated[tuple[ReasonCount, ...], Field(max_length=10)] = Field(
        default=(),
        description="The same by reason, those with the most first. Absent until a run has changed the dead letters.",
    )
    bytes: Count | None = Field(default=None, description="Size of the table's files.")
    small_files: Count | None = Field(
        default=None, description="Files of the messages table that maintenance would merge."
    )
    oldest_message_time: Time | None = Field(default=None, description="Time of the oldest message.")
    newest_message_time: Time | None = Field(default=None, description="Time of the newest message.")
    last_global_position: Count | None = Field(default=None, description="The last global position assigned.")


class Lag(StatusModel):
    """What has arrived but isn't in the store yet. Its figures are absent while they are unknown."""

    as_of: Time | None = Field(default=None, description="When the source was last listed.")
    files: Count | None = Field(default=None, description="Files not read yet.")
    records: Count | None = Field(default=None, description="Records not read yet.")
    oldest_pending_time: Time | None = Field(default=None, description="Arrival time of the oldest of them.")
    summary: Value | None = Field(default=None, description="Summary for people, such as 3 files, or unknown.")
    source_found: Flag | None = Field(
        default=None, description="Whether the folder of a source has, or has had, a file."
    )
    skipped_files: Count | None = Field(
        default=None, description="Files that include and exclude leave out. Absent if the source has neither."
    )


class BatchStatus(StatusModel):
    """How long the last batch took."""

    read_seconds: Seconds | None = Field(default=None, description="Seconds to read and judge its records.")
    decide_seconds: Seconds | None = Field(default=None, description="Seconds to find duplicates and give positions.")
    set_aside_seconds: Seconds | None = Field(
        default=None, description="Seconds to write claim checks and dead letters."
    )
    commit_seconds: Seconds | None = Field(default=None, description="Seconds to write and commit its messages.")
    waited_seconds: Seconds | None = Field(
        default=None,
        description="Seconds from the arrival of its oldest file to the commit; for a topic, from the oldest "
        "timestamp of its partitions' first records.",
    )


class SequencesStatus(StatusModel):
    """Incomplete message sequences in the store."""

    incomplete: Count | None = Field(default=None, description="Sequences whose size is unknown or that lack a member.")
    overdue: Count = Field(default=0, description="Incomplete sequences past spec.sequences.timeout.")
    oldest_time: Time | None = Field(
        default=None, description="Time of the earliest message of an incomplete sequence."
    )
    oldest_id: Value | None = Field(default=None, description="Identifier of that message's sequence.")


class UnfinishedMessages(StatusModel):
    """Messages whose status may still change, by status."""

    received: Count = Field(default=0, description="Messages whose processing has not begun.")
    processing: Count = Field(default=0, description="Messages being processed, or sent for a retry.")
    failed: Count = Field(default=0, description="Failed messages that have a retry left.")


class LifecycleStatus(StatusModel):
    """Counts of status updates since the store was created."""

    received: Count = Field(default=0, description="Records read from the source of updates.")
    applied: Count = Field(default=0, description="Updates that changed a message.")
    stale: Count = Field(default=0, description="Updates that changed nothing because they were late or repeated.")
    pending: Count = Field(default=0, description="Updates whose message has not arrived yet.")
    dead_lettered: Count = Field(default=0, description="Invalid updates, and updates whose message never arrived.")
    exhausted: Count = Field(default=0, description="Messages that failed and had no retry left.")
    expired: Count = Field(default=0, description="Messages that became EXPIRED.")
    retried: Count = Field(default=0, description="Failed messages that an update RETRY made due.")
    timed_out: Count = Field(default=0, description="Attempts that exceeded lifecycle.processingTimeout.")
    unfinished: UnfinishedMessages | None = Field(default=None, description="Messages whose status may still change.")
    lag_summary: Value | None = Field(default=None, description="Updates not read yet, such as 3 files, or unknown.")


class LossStatus(StatusModel):
    """Kafka records that were gone before they were read. All fields but records describe the last loss."""

    records: Count | None = Field(
        default=None, description="Lost offsets since the stream was created. Some may not have held a record."
    )
    at: Time | None = Field(default=None, description="When the last loss was found.")
    topic: Value | None = Field(default=None, description="Topic of the lost records.")
    partition: Count | None = Field(default=None, description="Partition of the lost records.")
    start: Count | None = Field(default=None, description="First lost offset.")
    end: Count | None = Field(default=None, description="First offset after the lost ones.")
    reason: Literal["Retention", "TopicDeleted"] | None = Field(
        default=None, description="Whether retention removed the records or the topic was deleted."
    )


class StreamRun(StreamTotals, FinishedRun):
    """An ended run of the stream, with counts of its records."""

    unknown_fields: Count = Field(default=0, description="Stored records with an unknown field.")
    updates: Count = Field(default=0, description="Status updates applied.")
    expired: Count = Field(default=0, description="Messages that became EXPIRED.")


class MaintenanceStatus(StatusModel):
    """The last maintenance of the tables."""

    at: Time | None = Field(default=None, description="When the last maintenance run ended.")
    table_version: Count | None = Field(default=None, description="Version of the messages table after it.")
    small_files: Count | None = Field(default=None, description="Small files left by it.")
    last_run: FinishedRun | None = Field(default=None, description="The last maintenance run that ended.")
    requested_version: Count | None = Field(
        default=None, description="Table version at which a continuous run was last asked to maintain the tables."
    )


class MessageStreamStatus(TriggeredStatus):
    """The observed state of a stream."""

    phase: StreamPhase | None = Field(default=None, description="State of the stream in one word, for people.")
    totals: StreamTotals | None = Field(default=None, description="Counts of all records received.")
    table: TableStatus | None = Field(default=None, description="Contents of the store.")
    sequences: SequencesStatus | None = Field(
        default=None, description="Incomplete message sequences. Absent if no message belongs to a sequence."
    )
    lag: Lag | None = Field(default=None, description="What has arrived but isn't in the store yet.")
    lifecycle: LifecycleStatus | None = Field(
        default=None, description="Counts of status updates since the store was created."
    )
    loss: LossStatus | None = Field(
        default=None, description="Kafka records that were gone before they were read. Absent if there were none."
    )
    current_run: CurrentRun | None = Field(default=None, description="The run in progress.")
    last_run: StreamRun | None = Field(default=None, description="The last run that ended.")
    last_success_time: Time | None = Field(default=None, description="When an ingest last succeeded.")
    lasting_failure: KnownFailure = None
    last_batch_time: Time | None = Field(default=None, description="When the last batch was committed.")
    last_batch: BatchStatus | None = Field(default=None, description="How long the last batch took.")
    maintenance: MaintenanceStatus | None = Field(default=None, description="The last maintenance of the tables.")
    recent_runs: Annotated[tuple[StreamRun, ...], Field(max_length=100)] = Field(
        default=(), description="Ended runs, the newest first."
    )
