"""The run document: the only thing that a job is told."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.records import (
    Envelope,
    FilesSource,
    Filter,
    Integrity,
    KafkaCluster,
    KafkaSource,
    RecordsSource,
    Translator,
)
from messagestore_core.contract.stores import StorageEntry, Table


class Resource(ContractModel):
    """The resource that asked for a run; goes into the audit."""

    kind: Literal["MessageStream", "RetentionPolicy", "ReplayJob"]
    namespace: str
    name: str
    generation: int = 1
    requested_by: str | None = None
    """Who wrote its spec, as far as that is known."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return self.kind, self.namespace, self.name


class Retry(ContractModel):
    """When a message that failed is due again: now + min(base^failures minutes, maximum)."""

    max_retries: int = 5
    backoff_base: float = 2
    max_backoff: timedelta = timedelta(hours=3)
    set_aside: bool = False
    """Whether a message that failed and has no retry left becomes a dead letter too."""


class Memory(ContractModel):
    """What a driver may hold, so that its memory is bounded by its pod and not by the table."""

    index_bytes: int | None = None
    """What is known of sequences; past it they are looked up in the table, batch by batch.
    None: a third of what the pod has for Python's data."""
    batch_bytes: int = 1 << 30
    """Bytes of input in one batch; larger files are read in several."""
    batch_records: int = 1_000_000
    """Records of Kafka in one batch."""


class Lifecycle(ContractModel):
    """Where status updates come from; they are read after what has arrived of messages."""

    source_id: str
    """Names what has been read of updates, as the task's own does of messages."""
    source: Annotated[FilesSource | KafkaSource, Field(discriminator="kind")]
    pending_for: timedelta = timedelta(days=1)
    """How long an update waits for its message."""
    processing_timeout: timedelta | None = None
    """How long a message may be PROCESSING before that attempt has failed; None: for ever."""


class Match(ContractModel):
    """What a rule or hold selects: every field that is given must hold, one of a list's values is enough."""

    stream_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    correlation_ids: tuple[str, ...] = ()
    sequence_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    where: str | None = None


class Hold(ContractModel):
    """Beats every rule while it lasts."""

    name: str
    match: Match
    until: datetime | None = None


class IngestTask(ContractModel):
    """Take what has arrived into the store."""

    kind: Literal["ingest"] = "ingest"
    source_id: str
    """Names what has been read from this source; another source has another."""
    source: Annotated[FilesSource | RecordsSource | KafkaSource, Field(discriminator="kind")]
    envelope: Envelope = Envelope()
    translators: tuple[Translator, ...] = ()
    """Kept with the store for its readers; what is stored stays as it came."""
    integrity: Integrity | None = None
    filter: Filter = Filter()
    deduplication_window: timedelta | None = None
    on_arrival_expired: Literal["DeadLetter", "Store", "Discard"] = "DeadLetter"
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
    """How fast records are taken in at most."""
    holds: tuple[Hold, ...] = ()
    """Of the store; what becomes of them is noted in the audit."""
    batch_interval: timedelta | None = None
    """Continuous: how often to look for more, until told to stop. Absent: what has arrived, and no more."""


class TimeWindow(ContractModel):
    """Half open: from ≤ time < to."""

    from_: datetime | None = Field(default=None, alias="from")
    to: datetime | None = None


class Interval(ContractModel):
    """Both ends included."""

    from_: int | None = Field(default=None, alias="from")
    to: int | None = None


class StreamPosition(ContractModel):
    """A place in one stream; what lies before it is meant."""

    stream_name: str
    position: int


class Rule(ContractModel):
    """All conditions of one rule must hold."""

    name: str
    expired: bool = False
    statuses: tuple[str, ...] = ()
    max_age: timedelta | None = None
    max_messages_per_stream: int | None = None
    max_bytes: int | None = None
    truncate_before: StreamPosition | None = None
    match: Match | None = None
    erase: bool = False


class Scrub(ContractModel):
    """What is removed from a row that stays. ``key_environment`` names the variable that holds the key of Hash."""

    payload_paths: tuple[str, ...] = ()
    metadata_paths: tuple[str, ...] = ()
    result_paths: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    error: bool = False
    dead_letters: bool = False
    """Whether dead letters that name a message go when it is scrubbed."""
    method: Literal["Redact", "Hash", "Drop"] = "Redact"
    key_environment: str | None = None


class Archive(ContractModel):
    """Where removed messages are written first."""

    uri: str
    format: Literal["Parquet", "JSONLines"] = "Parquet"


class PurgeTask(ContractModel):
    """Preview what the rules select and, with mode Enforce, remove or scrub it."""

    kind: Literal["purge"] = "purge"
    mode: Literal["DryRun", "Enforce"] = "DryRun"
    approved_preview: str | None = None
    """With ``approval_required``: the preview that may be carried out."""
    approved_by: str | None = None
    """Who approved it, as far as that is known; absent: who asks for the run."""
    approval_required: bool = False
    rules: tuple[Rule, ...] = ()
    holds: tuple[Hold, ...] = ()
    action: Literal["Delete", "Scrub"] = "Delete"
    scrub: Scrub | None = None
    integrity: Integrity | None = None
    """Of the store: what is scrubbed is sealed anew, if it was as it was sealed."""
    archive: Archive | None = None
    erase_within: timedelta = timedelta(days=7)
    dead_letters_max_age: timedelta | None = None


class Sequences(ContractModel):
    """Which message sequences a replay takes."""

    ids: tuple[str, ...] = ()
    complete_only: bool = False


class Selection(ContractModel):
    """What a replay sends: all that are given must hold; none: everything."""

    time_window: TimeWindow | None = None
    global_positions: Interval | None = None
    positions: Interval | None = None
    stream_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    correlation_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    reasons: tuple[str, ...] = ()
    sequences: Sequences | None = None
    due_for_retry: bool = False
    held_back: Literal["Retrying", "Failed"] | None = None
    """With due_for_retry: by which earlier message of its correlation id one is held back, that is tried again or that
    has failed, be it for good; absent: by none."""
    where: str | None = None
    limit: int | None = None


class FilesDestination(ContractModel):
    """Objects whose names sort in replay order, a manifest written last."""

    kind: Literal["files"] = "files"
    uri: str
    format: Literal["JSONLines", "JSON"] = "JSONLines"


class KafkaDestination(ContractModel):
    """A topic, each record with the message's field ``key`` as its key."""

    kind: Literal["kafka"] = "kafka"
    cluster: KafkaCluster
    topic: str
    key: Literal["streamName", "category", "messageId", "correlationId", "sequenceId"] = "streamName"


class StreamDestination(ContractModel):
    """Another stream's table, and how that stream takes records in."""

    kind: Literal["stream"] = "stream"
    table: Table
    ingest: IngestTask


class ReplayTask(ContractModel):
    """Send a chosen part of the past somewhere again."""

    kind: Literal["replay"] = "replay"
    job_id: str
    """One replay, over all its runs: what was frozen and sent is kept under this name."""
    rounds: bool = False
    """With due_for_retry: each run ends the round that an earlier one began, then selects anew. A round is a replay of
    its own, and has a folder of its own in the destination."""
    origin: Literal["Messages", "DeadLetters"] = "Messages"
    select: Selection = Selection()
    translators: tuple[Translator, ...] = ()
    """Applied to what is sent; the selection is over what is stored."""
    integrity: Integrity | None = None
    """Of the store that is read: what is not as it was sealed is not sent."""
    order: Literal["PerStream", "Global", "Sequence", "None"] = "PerStream"
    destination: Annotated[FilesDestination | KafkaDestination | StreamDestination, Field(discriminator="kind")]
    messages_per_second: float | None = None
    mark_headers: dict[str, str] = {}
    mode: Literal["DryRun", "Run"] = "Run"
    on_failed: Literal["Fail", "Continue"] = "Fail"
    """Whether a replay that could not send some of its selection has failed, once all else was sent."""


class EraseTask(ContractModel):
    """Remove from storage the bytes of what was erased, as far as that is due."""

    kind: Literal["erase"] = "erase"


class MaintainTask(ContractModel):
    """Keep the tables fast: compact small files, check points, remove what nothing refers to any more."""

    kind: Literal["maintain"] = "maintain"
    target_file_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """About how large a file becomes; one of three quarters of it is left alone."""
    log_retention: timedelta = timedelta(days=30)
    """How long a table's earlier versions are known by its log."""
    deleted_file_retention: timedelta = timedelta(days=7)
    """How long a file stays that a table no longer has, for those who still read an earlier version."""
    oldest_replay: datetime | None = None
    """When the oldest replay out of this store that has not ended froze its selection; absent: there is none."""


class Upkeep(ContractModel):
    """Maintenance that is asked of an ingest while it goes on."""

    asked: int = Field(ge=0)
    """Names the wish: the version of ``messages`` that it was made at."""
    oldest_replay: datetime | None = None
    """As a :class:`MaintainTask` has it."""


class DeleteTask(ContractModel):
    """Delete the store: its tables, what lies beside them, and its marker last."""

    kind: Literal["delete"] = "delete"
    holds: tuple[Hold, ...] = ()


class RunDocument(ContractModel):
    """One run: who asks, over which table, what to do, and the clock that every time rule sees."""

    run: str
    resource: Resource
    table: Table
    at: datetime | None = None
    """Absent: the wall clock."""
    storage: tuple[StorageEntry, ...] = ()
    """One entry a bucket; a bucket without one is reached by the pod's own identity at the default endpoint."""
    task: Annotated[
        IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask | DeleteTask, Field(discriminator="kind")
    ]
