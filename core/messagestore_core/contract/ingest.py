"""An ingest: its task, and what it reports."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field

from messagestore_core.contract.base import ContractModel, RunError, Seconds
from messagestore_core.contract.purge import Hold
from messagestore_core.contract.records import (
    Envelope,
    FilesSource,
    Filter,
    Integrity,
    KafkaSource,
    RecordsSource,
    TimeUnit,
    Translator,
)
from messagestore_core.contract.stores import TableState

OnArrivalExpired = Literal["DeadLetter", "Store", "Discard"]


class Retry(ContractModel):
    """When a message that failed is due again: now + min(base^failures minutes, maximum)."""

    max_retries: int = 5
    backoff_base: float = 2
    max_backoff: timedelta = timedelta(hours=3)
    set_aside: bool = False
    """Whether a message that failed and has no retry left becomes a dead letter too."""


class Memory(ContractModel):
    """How much a driver may hold in memory: as much as its pod allows, however large the table is."""

    index_bytes: int | None = None
    """For sequences that are held in memory; beyond it each batch looks sequences up in the table.
    None: a third of the pod's memory for Python's data."""
    batch_bytes: int = 1 << 30
    """Bytes of input in one batch; larger files are read in several."""
    batch_records: int = 1_000_000
    """Records of Kafka in one batch, or of a file that can't be cut by its bytes."""


class Lifecycle(ContractModel):
    """Where status updates come from; a run reads them after new messages."""

    source_id: str
    """Under this id the store notes which updates have been read; ``IngestTask.source_id`` is that of messages."""
    source: Annotated[FilesSource | KafkaSource, Field(discriminator="kind")]
    pending_for: timedelta = timedelta(days=1)
    """How long an update waits for its message."""
    processing_timeout: timedelta | None = None
    """How long a message may be PROCESSING before that attempt counts as failed; None: for ever."""
    time_unit: TimeUnit | None = Field(default=None, exclude_if=lambda unit: unit is None)
    """The unit of an update's time that is a number since 1970; None: it is text by RFC 3339."""


class IngestTask(ContractModel):
    """Store what has arrived."""

    kind: Literal["ingest"] = "ingest"
    source_id: str
    """Under this id the store notes what has been read; each source has its own."""
    source: Annotated[FilesSource | RecordsSource | KafkaSource, Field(discriminator="kind")]
    envelope: Envelope = Envelope()
    translators: tuple[Translator, ...] = ()
    """The store keeps them for its readers; messages are stored as they came."""
    integrity: Integrity | None = None
    filter: Filter = Filter()
    deduplication_window: timedelta | None = None
    stores_purged: bool = False
    """Whether a message is stored though the store remembers its id as purged, as a replay asks for it."""
    on_arrival_expired: OnArrivalExpired = "DeadLetter"
    default_ttl: timedelta | None = None
    retry: Retry = Retry()
    lifecycle: Lifecycle | None = None
    sequence_timeout: timedelta | None = None
    """How long after its earliest message a sequence that is not complete is overdue; None: never."""
    max_payload_bytes: int = 16 << 20
    claim_check_bytes: int | None = None
    compression: Literal["None", "Zstd"] = "Zstd"
    memory: Memory = Memory()
    messages_per_second: float | None = None
    """The rate limit; None: no limit."""
    holds: tuple[Hold, ...] = ()
    """Of the store; the audit notes which are new and which are gone."""
    batch_interval: timedelta | None = None
    """Continuous: how often to look for more, until the run is stopped. Absent: the run ends with what has arrived."""


class Upkeep(ContractModel):
    """Maintenance that a continuous ingest does between batches."""

    request_id: int = Field(ge=0, validation_alias="asked", serialization_alias="asked")
    """The version of ``messages`` at the time of the request."""
    oldest_replay: datetime | None = None
    """See ``MaintainTask``."""


class Counts(ContractModel):
    """Counts by name, with sum and difference."""

    def __add__(self, other: Self) -> Self:
        """Return the sums by name."""
        mine, theirs = self.model_dump(), other.model_dump()
        return type(self)(**{name: mine[name] + theirs[name] for name in mine})

    def __sub__(self, other: Self) -> Self:
        """Return the differences by name."""
        mine, theirs = self.model_dump(), other.model_dump()
        return type(self)(**{name: mine[name] - theirs[name] for name in mine})


class IngestCounts(Counts):
    """What happened to records; ``received`` is the sum of the others but ``unknown_fields``."""

    received: int = 0
    stored: int = 0
    duplicates: int = 0
    dead_lettered: int = 0
    filtered: int = 0
    discarded: int = 0
    unknown_fields: int = 0
    """Of those stored: how many had a field that their envelope doesn't define and the store doesn't keep."""


class UpdateCounts(Counts):
    """What happened to status updates, and to messages that expired.

    ``received`` is applied + stale + dead_lettered + those that wait for their message, less those erased since.
    """

    received: int = 0
    applied: int = 0
    stale: int = 0
    dead_lettered: int = 0
    """Records that were no update, and updates whose message did not come in time."""
    exhausted: int = 0
    """How often a message failed and had no retry left."""
    expired: int = 0
    """Messages that became EXPIRED by the clock."""
    retried: int = 0
    """Of those applied: the ones that gave a message without retries left one more try."""
    timed_out: int = 0
    """Attempts that failed because no answer came in time."""


class Loss(ContractModel):
    """Kafka records that were gone before they were read, over the source's life.

    All fields but ``records`` are about the last loss: offsets [start, end) of a partition, and why.
    """

    records: int
    """Counted by offsets; some offsets may have had no record."""
    at: datetime
    topic: str
    partition: int
    start: int
    end: int
    reason: Literal["Retention", "TopicDeleted"]


class Lag(ContractModel):
    """What has arrived at the source and is not in the store yet."""

    as_of: datetime
    files: int = 0
    records: int | None = None
    oldest_pending_time: datetime | None = None
    source_found: bool | None = None
    """Whether a source of files has, or has had, a file; absent for a topic and in reports of earlier releases."""
    skipped_files: int | None = None
    """Files that ``include`` and ``exclude`` left out of the last listing; absent where the source has neither."""


class LifecycleOutcome(ContractModel):
    """What a run did to the lifecycle of a store's messages, and what it left."""

    counts: UpdateCounts = UpdateCounts()
    """Of this run."""
    totals: UpdateCounts = UpdateCounts()
    """Over the store's life."""
    pending: int = 0
    """Updates that wait for their message."""
    lag: Lag | None = None
    """Updates that have arrived and have not been read."""
    unfinished: dict[str, int] | None = None
    """Messages that are not COMPLETED or EXPIRED, by status; absent where the run changed nothing."""


class SequenceState(ContractModel):
    """The message sequences of a store that are not known to be complete; the oldest by its earliest message."""

    incomplete: int = 0
    overdue: int = 0
    """Of those: the ones that wait for longer than the timeout."""
    oldest_time: datetime | None = None
    oldest_id: str | None = Field(default=None, max_length=1024)


class UpkeepDone(ContractModel):
    """What maintenance within an ingest did; with ``error`` the other figures mean nothing."""

    request_id: int = Field(validation_alias="asked", serialization_alias="asked")
    table_version: int | None = None
    small_files: int | None = None
    error: RunError | None = None


class BatchTimes(ContractModel):
    """How long a batch took, in seconds."""

    read_seconds: Seconds
    """The first pass: records are read and judged, and the driver gets what it needs of each."""
    decide_seconds: Seconds
    """The driver finds duplicates and numbers messages."""
    set_aside_seconds: Seconds
    """Claim checks and dead letters are written."""
    commit_seconds: Seconds
    """The second pass: messages are written and committed."""
    waited_seconds: Seconds | None = None
    """From the arrival of its oldest file to the commit, or the time of the oldest of its partitions' first records."""


class IngestOutcome(ContractModel):
    """What an ingest did: ``counts`` of this run, ``totals`` over the store's life."""

    kind: Literal["ingest"] = "ingest"
    counts: IngestCounts
    totals: IngestCounts
    batches: int
    last_batch: BatchTimes | None = None
    """Absent where the run had none, and in reports of earlier releases."""
    table: TableState
    sequences: SequenceState | None = None
    """Absent where no message belongs to a sequence."""
    lag: Lag
    loss: Loss | None = None
    lifecycle: LifecycleOutcome | None = None
    """Absent where the stream has no updates, and no message expires."""
    upkeep: UpkeepDone | None = None
    """Absent where none was asked for, or it has not ended."""
