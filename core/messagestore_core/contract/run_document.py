"""The run document: all input of a job."""

from datetime import datetime, timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from messagestore_core.addresses import Reach
from messagestore_core.contract.base import (
    Categories,
    ContractModel,
    CorrelationIds,
    Count,
    Flag,
    Headers,
    Identifier,
    JsonPaths,
    MessageIds,
    MessageTypes,
    Predicate,
    Statuses,
    StreamName,
    StreamNames,
    Value,
    Where,
)
from messagestore_core.contract.records import (
    Envelope,
    FilesSource,
    Filter,
    Integrity,
    KafkaCluster,
    KafkaSource,
    RecordsSource,
    TimeUnit,
    Translator,
)
from messagestore_core.contract.stores import StorageEntry, Table

OnArrivalExpired = Literal["DeadLetter", "Store", "Discard"]
RecordKey = Literal["streamName", "category", "messageId", "correlationId", "sequenceId"]
ReplayOrder = Literal["PerStream", "Global", "Sequence", "None"]
SentAs = Literal["Native", "CloudEvents", "CloudEventsBinary", "Original"]
"""The form of what a replay sends; the last two only to a topic."""


class Resource(ContractModel):
    """The resource that asks for a run; the audit names it."""

    kind: Literal["MessageStream", "RetentionPolicy", "ReplayJob"]
    namespace: str
    name: str
    generation: int = 1
    requested_by: str | None = None
    """Who wrote its spec; absent where that is unknown."""

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


class Match(ContractModel):
    """Messages that meet all given conditions on their envelopes."""

    stream_names: StreamNames = ()
    categories: Categories = ()
    types: MessageTypes = ()
    statuses: Statuses = ()
    correlation_ids: CorrelationIds = ()
    sequence_ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Identifiers of message sequences, any of them."
    )
    message_ids: MessageIds = ()
    headers: Headers = {}
    where: Predicate = None


MATCH_LISTS = {
    "stream_names": "stream_name",
    "categories": "category",
    "types": "type",
    "statuses": "status",
    "correlation_ids": "correlation_id",
    "sequence_ids": "sequence_id",
    "message_ids": "message_id",
}
"""The columns in which a match, or a selection, lists values, by its fields."""


class Hold(ContractModel):
    """Keeps messages from all rules while it lasts."""

    name: str
    match: Match = Match()
    until: datetime | None = None


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


class TimeWindow(ContractModel):
    """Half open: from ≤ time < to."""

    from_: datetime | None = Field(default=None, alias="from")
    to: datetime | None = None


class Interval(ContractModel):
    """Positions from one to another, both included."""

    from_: Count | None = Field(default=None, alias="from", description="First position. If absent, the beginning.")
    to: Count | None = Field(default=None, description="Last position. If absent, no end.")


class StreamPosition(ContractModel):
    """The messages of one stream before a position."""

    stream_name: StreamName = Field(description="Name of the stream.")
    position: Count = Field(description="Selects messages at lower positions.")


class ConsumedBy(ContractModel):
    """Subscriptions and consumers that have handled a message, or passed it over, all of them."""

    replay_jobs: Annotated[tuple[Identifier, ...], Field(max_length=16)] = Field(
        default=(), description="Names of ReplayJobs with start, of the policy's namespace."
    )
    consumers: Annotated[tuple[Identifier, ...], Field(max_length=16)] = Field(
        default=(),
        exclude_if=lambda names: not names,
        description="Names of consumers that keep their cursors in the stream's store.",
    )


class Rule(ContractModel):
    """All conditions of one rule must hold."""

    name: str
    expired: bool = False
    statuses: Statuses = ()
    max_age: timedelta | None = None
    max_messages_per_stream: int | None = None
    max_bytes: int | None = None
    truncate_before: StreamPosition | None = None
    match: Match | None = None
    consumed_by: ConsumedBy | None = Field(default=None, exclude_if=lambda consumers: consumers is None)
    erase: bool = False


class ScrubbedParts(ContractModel):
    """What is removed from messages that stay in the store."""

    payload_paths: JsonPaths = Field(default=(), description="Paths of values in JSON payloads.")
    metadata_paths: JsonPaths = Field(default=(), description="Paths of values in the metadata.")
    result_paths: JsonPaths = Field(default=(), description="Paths of values in JSON results.")
    headers: Annotated[tuple[Annotated[Value, Field(min_length=1)], ...], Field(max_length=64)] = Field(
        default=(), description="Names of headers."
    )
    error: Flag = Field(default=False, description="If true, the error text is removed too.")
    dead_letters: Flag = Field(
        default=False, description="If true, dead letters that name a scrubbed message are removed."
    )
    method: Literal["Redact", "Hash", "Drop"] = Field(
        default="Redact", description="What replaces the value: a fixed mark, a keyed hash, or nothing."
    )


class Scrub(ScrubbedParts):
    """What a purge scrubs. ``key_environment`` names the variable that holds the key of Hash."""

    key_environment: str | None = None


class Archive(ContractModel):
    """Where messages are written before they are removed."""

    uri: str
    format: Literal["Parquet", "JSONLines"] = "Parquet"


class PurgeTask(ContractModel):
    """Preview what the rules select and, with mode Enforce, remove or scrub it."""

    kind: Literal["purge"] = "purge"
    mode: Literal["DryRun", "Enforce"] = "DryRun"
    approved_preview: str | None = None
    """With ``approval_required``: the id of the preview that may be enforced."""
    approved_by: str | None = None
    """Who approved it; absent: the one who asks for the run, or unknown."""
    approval_required: bool = False
    rules: tuple[Rule, ...] = ()
    holds: tuple[Hold, ...] = ()
    action: Literal["Delete", "Scrub"] = "Delete"
    scrub: Scrub | None = None
    integrity: Integrity | None = None
    """Of the store: scrubbed messages get a new seal if their old one was valid."""
    archive: Archive | None = None
    erase_within: timedelta = timedelta(days=7)
    dead_letters_max_age: timedelta | None = None


class Sequences(ContractModel):
    """Members of message sequences."""

    ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Identifiers of sequences. If empty, all."
    )
    complete_only: Flag = Field(
        default=False,
        description="If true, only complete sequences are selected. With start, members wait until theirs is complete.",
    )
    or_overdue: Flag = Field(
        default=False,
        description="With completeOnly: if true, sequences that are overdue by the stream's sequences.timeout as well.",
    )


class WaitingOfRound(ContractModel):
    """The positions of messages that wait for others of their sequences, before and after a round."""

    before: tuple[Count, ...] = ()
    after: tuple[Count, ...] = ()


class Decider(ContractModel):
    """Another of several destinations, of which topics decide what it gets of the messages that match."""

    folder: str
    """That of its cursor."""
    where: Predicate = None


class Routing(ContractModel):
    """Which of the selected messages go to one of several destinations. What can't be decided doesn't match."""

    where: Predicate = None
    unless: Annotated[tuple[Where, ...], Field(max_length=16)] = ()
    """Conditions of other destinations, none of which matches."""
    deciders: tuple[Decider, ...] = Field(default=(), max_length=16, exclude_if=lambda deciders: not deciders)
    """What no topic of these takes goes here too."""


class Selection(ContractModel):
    """What a replay sends: all given fields must match; without any, everything."""

    time_window: TimeWindow | None = None
    global_positions: Interval | None = None
    positions: Interval | None = None
    stream_names: StreamNames = ()
    categories: Categories = ()
    types: MessageTypes = ()
    statuses: Statuses = ()
    correlation_ids: CorrelationIds = ()
    message_ids: MessageIds = ()
    headers: Headers = {}
    reasons: tuple[str, ...] = ()
    sequences: Sequences | None = None
    sequence_timeout: timedelta | None = Field(default=None, exclude_if=lambda timeout: timeout is None)
    """With sequences.or_overdue: how long after its earliest message a sequence is overdue; None: never."""
    waiting: WaitingOfRound | None = Field(default=None, exclude_if=lambda waiting: waiting is None)
    """Of a round of a subscription of complete sequences: it sends what waited before and does not after it, and what
    is at ``global_positions`` and does not wait after it."""
    due_for_retry: bool = False
    held_back: Literal["Retrying", "Failed"] | None = None
    """With due_for_retry: which earlier messages of the same group hold a message back. Retrying: those that will be
    tried again. Failed: all that failed. Absent: none."""
    grouped_by: Literal["correlation_id", "stream_name"] = Field(
        default="correlation_id", exclude_if=lambda column: column == "correlation_id"
    )
    """With held_back: what the messages of a group have in common."""
    where: Predicate = None
    routing: Routing | None = Field(default=None, exclude_if=lambda routing: routing is None)
    """Of a run that sends to one of several destinations."""
    limit: int | None = None


class FilesDestination(ContractModel):
    """Objects whose names sort in replay order, a manifest written last."""

    kind: Literal["files"] = "files"
    uri: str
    format: Literal["JSONLines", "JSON"] = "JSONLines"
    envelope: SentAs = Field(default="Native", exclude_if=lambda sent_as: sent_as == "Native")

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that are written to."""
        return (self.uri,)


class TopicFrom(ContractModel):
    """Where a message names the topic that it goes to."""

    header: str | None = None
    """One of its headers; absent: its field ``replyTo``."""
    pattern: str
    """An expression of RE2 that the whole name has to match."""


class KafkaDestination(ContractModel):
    """A topic, each record with the message's field ``key`` as its key."""

    kind: Literal["kafka"] = "kafka"
    cluster: KafkaCluster
    topic: str = Field(default="", exclude_if=lambda topic: not topic)
    """Empty: each message names its own."""
    topic_from: TopicFrom | None = Field(default=None, exclude_if=lambda given: given is None)
    """Where messages name theirs."""
    key: RecordKey = "streamName"
    envelope: SentAs = Field(default="Native", exclude_if=lambda sent_as: sent_as == "Native")
    create: bool = Field(default=False, exclude_if=lambda makes: not makes)
    """Whether a topic that is missing is made, as the store has noted the one that its records came from."""

    @property
    def folders(self) -> tuple[str, ...]:
        """None."""
        return ()


class Folder(ContractModel):
    """A folder that objects are written to."""

    uri: str


class HttpRetries(ContractModel):
    """How often and when a request is tried again, within one run."""

    retry: Count = 5
    backoff_delay: timedelta = timedelta(seconds=1)
    """Before the first retry; it doubles with each."""
    backoff_max: timedelta = timedelta(minutes=1)
    timeout: timedelta = timedelta(seconds=30)
    """For the connection, and for each part of an answer."""
    retry_after_max: timedelta = timedelta(minutes=5)
    """The longest wait that an endpoint may ask for."""


class HttpHeader(ContractModel):
    """A header of each request; ``environment`` names the variable with its value."""

    name: str
    environment: str


class HttpDestination(ContractModel):
    """An endpoint that takes CloudEvents, one a request."""

    kind: Literal["http"] = "http"
    url: str
    envelope: Literal["CloudEvents", "CloudEventsBinary"] = "CloudEvents"
    in_flight: int = Field(default=8, ge=1, le=256)
    """Requests under way at a time."""
    delivery: HttpRetries = HttpRetries()
    dead_letter: Folder | None = None
    """Where messages that the endpoint refuses are set aside; absent: such a message ends the run."""
    ca_file: str | None = None
    """The authority that signed the endpoint's certificate; absent: one of the well-known ones."""
    header: HttpHeader | None = None
    addresses: Reach = "Any"
    """Which addresses the endpoint's name may stand for."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder of refused messages, if there is one."""
        return (self.dead_letter.uri,) if self.dead_letter else ()


class StreamDestination(ContractModel):
    """Another stream's table, and how that stream ingests records."""

    kind: Literal["stream"] = "stream"
    table: Table
    ingest: IngestTask

    @property
    def folders(self) -> tuple[str, ...]:
        """The table's folder."""
        return (self.table.uri,)


Destination: TypeAlias = FilesDestination | KafkaDestination | HttpDestination | StreamDestination


class StartPoint(ContractModel):
    """The first message that a subscription sends; exactly one field is given."""

    at: Literal["Beginning", "Now"] | None = None
    global_position: Count | None = None
    inserted_at: datetime | None = None
    """The first message that was stored then, or later."""


class Reset(ContractModel):
    """Moves a cursor, once for each new value."""

    value: Annotated[str, Field(max_length=64)]
    """As people wrote it."""
    to: StartPoint


class Route(ContractModel):
    """One of several destinations of a subscription, and which of the selected messages go there."""

    name: str
    where: Predicate = None
    otherwise: bool = False
    """Whether it gets what no other's ``where`` matches."""
    start: StartPoint | None = None
    """Where it begins if it has no cursor yet; absent: where the subscription does."""
    reset: Reset | None = Field(default=None, exclude_if=lambda reset: reset is None)
    """Moves its cursor alone."""
    rests: bool = False
    """Whether this run leaves it alone, as it failed before, and a further try is not due."""
    destination: Annotated[Destination, Field(discriminator="kind")]


class RoutesDestination(ContractModel):
    """Several destinations, each with a cursor of its own."""

    kind: Literal["routes"] = "routes"
    routes: tuple[Route, ...]

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Each of them."""
        return tuple(route.destination for route in self.routes)


class Subscription(ContractModel):
    """Send what is behind a cursor, round by round, and move the cursor."""

    start: StartPoint
    """Where it begins if there is no cursor yet."""
    reset: Reset | None = None
    continuous: bool = False
    """Whether the run goes on until it is stopped, and sends messages as they come; only to a destination of which
    transactions or answers tell how far it is."""
    destination: str = Field(default="", exclude_if=lambda name: not name)
    """The name of one of several destinations; its cursor has it too."""
    beside: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The names of the others."""
    otherwise: str = Field(default="", exclude_if=lambda name: not name)
    """The one that gets what no condition matches, what none can be computed for, and what no topic takes."""


class ReplayTask(ContractModel):
    """Send a selection of stored messages or dead letters to a destination."""

    kind: Literal["replay"] = "replay"
    job_id: str
    """The name of one replay over all its runs; its state is kept under this name."""
    request_digest: str | None = Field(default=None, validation_alias="asked", serialization_alias="asked")
    """A digest of what the resource asks for, where the name doesn't tell two resources of one name apart. A replay
    that asks for something else than the first of its name has this after the name."""
    rounds: bool = False
    """With due_for_retry: each run ends the round that an earlier run began, then selects again. A round is a replay of
    its own, with its own folder in the destination."""
    subscription: Subscription | None = None
    """Each run ends the round that an earlier run began, then sends what came behind the cursor. A round is a replay of
    its own, of a range of global positions."""
    origin: Literal["Messages", "DeadLetters"] = "Messages"
    select: Selection = Selection()
    translators: tuple[Translator, ...] = ()
    """Applied to what is sent; the selection looks at messages as they are stored."""
    integrity: Integrity | None = None
    """Of the store that is read: a message that doesn't match its seal is not sent."""
    order: ReplayOrder = "PerStream"
    destination: Annotated[Destination | RoutesDestination, Field(discriminator="kind")]
    messages_per_second: float | None = None
    mark_headers: dict[str, str] = {}
    mode: Literal["DryRun", "Run"] = "Run"
    on_failed: Literal["Fail", "Continue"] = "Fail"
    """Whether a replay counts as failed that could not send some of its selection, after it sent the rest."""
    skip_expired: bool = False
    """Whether messages that have expired by the time that they are sent are left out."""

    @property
    def to(self) -> Destination:
        """The only destination."""
        assert not isinstance(self.destination, RoutesDestination)
        return self.destination

    @property
    def target(self) -> StreamDestination | None:
        """The stream that messages are sent to; there is one at most."""
        return next((to for to in self.destinations if isinstance(to, StreamDestination)), None)

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """Each place that messages are sent to."""
        return self.destination.destinations if isinstance(self.destination, RoutesDestination) else (self.to,)


class EraseTask(ContractModel):
    """Remove the bytes of erased messages from storage where that is due."""

    kind: Literal["erase"] = "erase"


class MaintainTask(ContractModel):
    """Keep the tables fast: compact small files, write checkpoints, remove what nothing refers to any more."""

    kind: Literal["maintain"] = "maintain"
    target_file_bytes: int = Field(default=128 << 20, ge=1 << 20)
    """About how large files become; those of three quarters of it and more are left as they are."""
    log_retention: timedelta = timedelta(days=30)
    """How long a table's log keeps earlier versions."""
    deleted_file_retention: timedelta = timedelta(days=7)
    """How long a removed file stays for readers of earlier versions."""
    oldest_replay: datetime | None = None
    """When the oldest replay of this store that has not ended froze its selection; absent: there is none."""


class Upkeep(ContractModel):
    """Maintenance that a continuous ingest does between batches."""

    request_id: int = Field(ge=0, validation_alias="asked", serialization_alias="asked")
    """The version of ``messages`` at the time of the request."""
    oldest_replay: datetime | None = None
    """See ``MaintainTask``."""


class DeleteTask(ContractModel):
    """Delete the store: its tables, its objects, and last its marker."""

    kind: Literal["delete"] = "delete"
    holds: tuple[Hold, ...] = ()


class RunDocument(ContractModel):
    """One run: who asks for it, the table, the task, and the time that all time rules see."""

    run: str
    resource: Resource
    table: Table
    at: datetime | None = None
    """Absent: the wall clock."""
    storage: tuple[StorageEntry, ...] = ()
    """One entry per bucket; without one, the pod's own identity and the default endpoint are used."""
    task: Annotated[
        IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask | DeleteTask, Field(discriminator="kind")
    ]
