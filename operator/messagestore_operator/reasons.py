"""Why a resource is in the state it is in: the one list of constants for conditions, Events and logs.

A run that failed brings a reason of its own; those are listed too, because what is done next hangs on them.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Constants of `reason` in conditions and of `error.reason`; a new one is added here and nowhere else."""

    # Of what is well.
    INGESTING = "Ingesting"
    PREVIEWED = "Previewed"
    PURGED = "Purged"
    SCRUBBED = "Scrubbed"
    NOTHING_TO_REMOVE = "NothingToRemove"
    AWAITING_APPROVAL = "AwaitingApproval"
    REPLAYED = "Replayed"
    SUSPENDED = "Suspended"
    WAITING = "Waiting"

    # Of what is under way.
    PENDING = "Pending"
    RUNNING = "Running"
    DELETING = "Deleting"

    # Of what keeps a run from starting.
    DELETION_BLOCKED = "DeletionBlocked"
    SECRET_MISSING = "SecretMissing"
    PAUSED = "Paused"
    SPARK_OPERATOR_MISSING = "SparkOperatorMissing"
    STREAM_MISSING = "StreamMissing"
    TABLE_RELEASED = "TableReleased"
    TOO_MANY_STREAMS = "TooManyStreams"
    WAITING_FOR_DRIVER = "WaitingForDriver"
    WAITING_FOR_ROOM = "WaitingForRoom"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    WRONG_APPROVAL = "WrongApproval"

    # Of what only an Event tells.
    DATA_DELETED = "DataDeleted"
    DATA_KEPT = "DataKept"
    DEAD_LETTERS = "DeadLetters"
    RECORDS_LOST = "RecordsLost"
    RETRIES_EXHAUSTED = "RetriesExhausted"
    RUN_FINISHED = "RunFinished"
    RUN_STARTED = "RunStarted"
    RUN_STOPPED = "RunStopped"
    SCHEDULE_MISSED = "ScheduleMissed"
    SEQUENCES_OVERDUE = "SequencesOverdue"

    # Of runs that failed: their pods.
    CONFIG_MISSING = "ConfigMissing"
    DRIVER_LOST = "DriverLost"
    EVICTED = "Evicted"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    POD_FAILED = "PodFailed"
    REPORT_MISSING = "ReportMissing"
    RUN_LOST = "RunLost"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    SUBMISSION_FAILED = "SubmissionFailed"
    UNSCHEDULABLE = "Unschedulable"

    # Of runs that the operator ended.
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SPEC_CHANGED = "SpecChanged"
    STOP_DEADLINE_EXCEEDED = "StopDeadlineExceeded"

    # Of runs that failed: their work.
    ARCHIVE_INCOMPLETE = "ArchiveIncomplete"
    COMMIT_LOST = "CommitLost"
    DESTINATION_NOT_EMPTY = "DestinationNotEmpty"
    ERASURE_INCOMPLETE = "ErasureIncomplete"
    FENCED = "Fenced"
    HOLD_ACTIVE = "HoldActive"
    INVALID_SPEC = "InvalidSpec"
    KAFKA_DENIED = "KafkaDenied"
    KAFKA_UNREACHABLE = "KafkaUnreachable"
    MESSAGES_BROKEN = "MessagesBroken"
    MESSAGES_LOST = "MessagesLost"
    MISSING_KEY = "MissingKey"
    NOT_ALLOWED = "NotAllowed"
    NOT_SUPPORTED = "NotSupported"
    PREDICATE_REFUSED = "PredicateRefused"
    PURGE_UNFINISHED = "PurgeUnfinished"
    RECORD_TOO_LARGE = "RecordTooLarge"
    REPLAY_CHANGED = "ReplayChanged"
    RUN_FAILED = "RunFailed"
    SOURCE_CHANGED = "SourceChanged"
    STORAGE_DENIED = "StorageDenied"
    STORAGE_MISSING = "StorageMissing"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    STREAM_FAILED = "StreamFailed"
    TABLE_BUSY = "TableBusy"
    TABLE_REFUSED = "TableRefused"
    TOPIC_MISSING = "TopicMissing"


TERMINAL = frozenset(
    {
        Reason.DESTINATION_NOT_EMPTY,
        Reason.INVALID_SPEC,
        Reason.MESSAGES_BROKEN,
        Reason.MESSAGES_LOST,
        Reason.MISSING_KEY,
        Reason.NOT_ALLOWED,
        Reason.NOT_SUPPORTED,
        Reason.PREDICATE_REFUSED,
        Reason.REPLAY_CHANGED,
        Reason.TABLE_REFUSED,
    }
)
"""No other try mends these: somebody has to change something first."""

CANCELLED = frozenset({Reason.SPEC_CHANGED, Reason.SUSPENDED, Reason.DELETING})
"""Why the operator ends runs that did nothing wrong; they count as no failure."""
