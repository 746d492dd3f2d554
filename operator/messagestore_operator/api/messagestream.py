"""MessageStream: what arrives, how it is kept, and under which rules."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract import records
from messagestore_core.contract.base import Flag, Integer, Where
from messagestore_core.contract.ingest import OnArrivalExpired
from messagestore_operator.api import stream_rules
from messagestore_operator.api.common import KeySecretRef, Manual, Match, Schedule, Storage
from messagestore_operator.api.envelope import Envelope
from messagestore_operator.api.messagestream_status import MessageStreamStatus
from messagestore_operator.api.model import Model
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.rules import immutable
from messagestore_operator.api.scalars import Duration, Factor, Label, Quantity, StoreUri, Time, UniqueNames
from messagestore_operator.api.sources import Source
from messagestore_operator.api.spark import Spark


class Table(Model):
    """The folder that holds the store's tables."""

    transitions = (immutable("uri", optional=False),)

    uri: StoreUri = Field(description="The folder of the store's tables. It can't be changed.")
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain", description="Whether deleting the resource keeps or deletes the data."
    )


class Continuous(Model):
    """One run that never ends and stores batch after batch."""

    batch_interval: Duration = Field(default=Duration("PT10S"), description="Time from one batch to the next.")


class StreamTrigger(Model):
    """When runs take messages from the source."""

    validations = (stream_rules.STREAM_TRIGGER,)

    interval: Duration | None = Field(
        default=None, description="Takes what has arrived, stops, and starts again after this time."
    )
    schedule: Schedule | None = Field(default=None, description="Takes what has arrived at times of a cron expression.")
    continuous: Continuous | None = Field(default=None, description="Takes messages all the time, as they arrive.")
    manual: Manual | None = Field(
        default=None, description="Runs when annotation messagestore.dev/run-requested changes."
    )


class Filter(records.Filter, Model):
    """Which messages are stored."""

    where: Where = Field(
        default="", description="A predicate over the canonical columns that must hold. If empty, none."
    )


class Deduplication(Model):
    """How long an identifier is remembered for deduplication."""

    validations = (stream_rules.DEDUPLICATION,)

    window: Duration | None = Field(
        default=None,
        description="A message is a duplicate if its identifier was first stored within this time. If absent, if the "
        "store has it.",
    )
    remember_purged: Duration | None = Field(
        default=None,
        description="A message is also a duplicate if a policy removed one with its identifier within this time, "
        "unless a ReplayJob sends it. If absent, it is stored again.",
    )


class Expiration(Model):
    """How messages expire."""

    on_arrival_expired: OnArrivalExpired = Field(
        default="DeadLetter", description="How to treat a message that has already expired when it arrives."
    )
    default_ttl: Duration | None = Field(
        default=None, description="Time to live of messages without an expiration. If absent, they never expire."
    )


class Retry(Model):
    """When a FAILED message may be retried."""

    max_retries: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=5, description="Maximum number of retries of a message."
    )
    backoff_base: Factor = Field(
        default=Factor("2"), description='Retry n waits backoffBase^n minutes. A fraction is a text, such as "1.5".'
    )
    max_backoff: Duration = Field(default=Duration("PT3H"), description="Longest wait before a retry.")
    order: Literal["None", "PerCorrelation", "PerStream"] = Field(
        default="None",
        description="PerCorrelation holds a message back while an earlier one with the same correlationId has failed "
        "or is being retried; PerStream, while one of the same message stream has.",
    )
    policy: Literal["Retry", "Drop", "DeadLetter"] = Field(
        default="Retry",
        description="Retry makes up to maxRetries retries; then the message stays FAILED. Drop makes none. DeadLetter "
        "retries too, and then stores the message as a dead letter as well.",
    )


class RateLimit(Model):
    """How fast messages are ingested."""

    messages_per_second: Annotated[Integer, Field(ge=1, le=10_000_000)] = Field(
        description="Maximum records per second. A run waits after a batch until the next one is within this rate."
    )


class Payload(Model):
    """How payloads are stored."""

    max_size: Quantity = Field(
        default=Quantity("16Mi"), description="Larger payloads become dead letters with reason PayloadTooLarge."
    )
    claim_check_threshold: Quantity | None = Field(
        default=None, description="Larger payloads are stored as separate objects (claim checks). If absent, none are."
    )
    compression: Literal["None", "Zstd"] = Field(default="Zstd", description="Compression of the tables' files.")


class Integrity(Model):
    """Each message gets a keyed hash (seal) when it is stored. A message that has changed since is never sent."""

    hmac_secret_ref: KeySecretRef = Field(description="The key of the hash.")
    previous_secret_refs: Annotated[tuple[KeySecretRef, ...], Field(max_length=8)] = Field(
        default=(), description="Keys that stored messages were sealed with before. Their seals stay valid."
    )
    unsigned: Literal["Refuse", "Accept"] = Field(
        default="Refuse", description="Whether a replay sends messages without a seal, which are older than the key."
    )


class Hold(Model):
    """A legal hold. No policy removes the messages that it covers."""

    name: Label = Field(description="Name of the hold, unique in the stream.")
    match: Match | None = Field(default=None, description="The messages that it covers. If absent, all.")
    until: Time | None = Field(
        default=None, description="When the hold ends. If absent, it ends when it is removed from the spec."
    )


class Lifecycle(Model):
    """Where applications report the status of messages."""

    validations = stream_rules.LIFECYCLE

    source: Source = Field(
        description="Where status updates come from: records with messageId, status, result, error and time."
    )
    processing_timeout: Duration | None = Field(
        default=None,
        description="A message that stays PROCESSING longer becomes FAILED and may be retried. If absent, no timeout.",
    )
    time_unit: records.TimeUnit | None = Field(
        default=None,
        description="Unit of an update's time that is a number since 1970, or a string of one. If absent, the time is "
        "text by RFC 3339.",
    )
    history: Literal["None", "All"] = Field(
        default="All",
        description="Whether each change of a message's status, attempt or next retry gets a row in table history.",
    )


class Sequences(Model):
    """When incomplete sequences are reported as overdue."""

    timeout: Duration = Field(
        description="A sequence is overdue if it is incomplete this long after its earliest message. The status counts "
        "it and an Event reports it."
    )


class MessageStreamSpec(Model):
    """The desired state of a stream."""

    validations = stream_rules.STREAM

    table: Table = Field(description="Where the store is.")
    storage: Storage | None = Field(
        default=None,
        description="How runs reach the object store. If absent, they use the pod's identity, which the operator "
        "refuses unless tenancy.storage.requireCredentials is false.",
    )
    source: Source = Field(description="Where messages come from.")
    trigger: StreamTrigger = Field(description="When runs take messages from the source.")
    envelope: Envelope = Field(default=Envelope(), description="How a record is read.")
    filter: Filter | None = Field(default=None, description="Which messages are stored. If absent, all.")
    deduplication: Deduplication | None = Field(
        default=None,
        description="How long an identifier is remembered for deduplication. If absent, while the store has it.",
    )
    expiration: Expiration = Field(default=Expiration(), description="How messages expire.")
    retry: Retry = Field(default=Retry(), description="When a FAILED message may be retried.")
    rate_limit: RateLimit | None = Field(
        default=None, description="How fast messages are ingested. If absent, no limit."
    )
    payload: Payload = Field(default=Payload(), description="How payloads are stored.")
    integrity: Integrity | None = Field(
        default=None, description="How messages are sealed. If absent, payloads have digests only."
    )
    holds: Annotated[tuple[Hold, ...], Field(max_length=64), UniqueNames()] = Field(
        default=(), description="Legal holds. They override all rules of all policies and deletionPolicy Delete."
    )
    lifecycle: Lifecycle | None = Field(default=None, description="Where status updates come from.")
    sequences: Sequences | None = Field(
        default=None, description="When incomplete sequences are reported as overdue. If absent, they are only counted."
    )
    suspend: Flag = Field(default=False, description="If true, no new run starts.")
    spark: Spark | None = Field(default=None, description="Size and settings of the runs' Spark applications.")
    run_history_limit: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=10, description="Number of ended runs in the status."
    )


class MessageStream(Resource):
    """A message store: it keeps each message that arrives once, in order and queryable."""

    kind: Literal["MessageStream"] = Field(default="MessageStream", description="Kind of the resource.")
    spec: MessageStreamSpec = Field(description="The desired state of the stream.")
    status: MessageStreamStatus | None = Field(default=None, description="The observed state of the stream.")
