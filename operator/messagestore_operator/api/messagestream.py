"""MessageStream: what arrives, how it is kept, and under which rules."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from messagestore_operator.api.common import KeySecretRef, Manual, Match, Schedule, Storage
from messagestore_operator.api.envelope import Envelope
from messagestore_operator.api.messagestream_status import MessageStreamStatus
from messagestore_operator.api.model import Model
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.rules import Rule, TransitionRule, exactly_one, immutable
from messagestore_operator.api.scalars import Duration, Quantity, Time
from messagestore_operator.api.sources import Source
from messagestore_operator.api.spark import Spark
from messagestore_operator.api.text import Flag, Integer, Label, MessageType, UniqueNames, Where
from messagestore_operator.api.uris import StoreUri


class Table(Model):
    """The folder that holds the store's tables."""

    transitions: ClassVar[tuple[TransitionRule, ...]] = (immutable("uri", optional=False),)

    uri: StoreUri = Field(description="The folder of the store's tables; can't be changed.")
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain", description="What deleting the resource does to the data."
    )


class Continuous(Model):
    """One run that goes on, a batch after the other."""

    batch_interval: Duration = Field(default=Duration("PT10S"), description="Time from one batch to the next.")


class StreamTrigger(Model):
    """When messages are taken from the source."""

    validations: ClassVar[tuple[Rule, ...]] = (exactly_one("interval", "schedule", "continuous", "manual"),)

    interval: Duration | None = Field(
        default=None, description="Take what has arrived, then stop, again and again after this time."
    )
    schedule: Schedule | None = Field(default=None, description="Take what has arrived at points in time.")
    continuous: Continuous | None = Field(default=None, description="Take what arrives, all the time.")
    manual: Manual | None = Field(
        default=None, description="Run when annotation messagestore.dev/run-requested changes."
    )


class Filter(Model):
    """The message selector: which messages are stored."""

    types: Annotated[tuple[MessageType, ...], Field(max_length=100)] = Field(
        default=(), description="Types that are stored; empty means all."
    )
    where: Where = Field(
        default="", description="A predicate over the canonical columns that must hold; empty means none."
    )
    unmatched: Literal["Drop", "DeadLetter"] = Field(
        default="Drop", description="What becomes of the others: counted as filtered, or set aside."
    )


class Deduplication(Model):
    """Within which time the same message identifier is a duplicate."""

    window: Duration = Field(description="Messages first written longer ago are not looked at.")


class Expiration(Model):
    """What becomes of messages that are no longer of use."""

    on_arrival_expired: Literal["DeadLetter", "Store", "Discard"] = Field(
        default="DeadLetter", description="What becomes of a message that has expired when it arrives."
    )
    default_ttl: Duration | None = Field(
        default=None, description="For messages that bring no expiration; absent: they never expire."
    )


class Retry(Model):
    """When a message that was reported FAILED may be tried again."""

    max_retries: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=5, description="Failures that are followed by a retry."
    )
    backoff_base: Annotated[Integer, Field(ge=1, le=60)] = Field(
        default=2, description="The n-th retry waits this to the power of n minutes."
    )
    max_backoff: Duration = Field(default=Duration("PT3H"), description="No retry waits longer.")
    order: Literal["None", "PerCorrelation"] = Field(
        default="None",
        description="PerCorrelation holds a message back while an earlier one of its correlationId has failed "
        "or is being tried again.",
    )
    policy: Literal["Retry", "Drop", "DeadLetter"] = Field(
        default="Retry",
        description="Retry tries maxRetries times, then the message stays FAILED. Drop never tries again. DeadLetter "
        "is as Retry, and at the end the message is a dead letter too.",
    )


class Throttle(Model):
    """How fast messages are taken in at most."""

    messages_per_second: Annotated[Integer, Field(ge=1, le=10_000_000)] = Field(
        description="Records in a second, over the batches of a run: after a batch the next one waits for its turn."
    )


class Payload(Model):
    """How payloads are kept."""

    max_size: Quantity = Field(
        default=Quantity("16Mi"), description="A larger payload is set aside as PayloadTooLarge."
    )
    claim_check_threshold: Quantity | None = Field(
        default=None, description="A larger payload lies in an object of its own; absent: none does."
    )
    compression: Literal["None", "Zstd"] = Field(default="Zstd", description="How the tables' files are compressed.")


class Integrity(Model):
    """Messages are sealed with a keyed hash when they are stored; what has changed since is never sent."""

    hmac_secret_ref: KeySecretRef = Field(description="The key of the hash.")
    unsigned: Literal["Refuse", "Accept"] = Field(
        default="Refuse",
        description="What becomes of a message without a seal, from before there was a key, when it is to be sent.",
    )


class Hold(Model):
    """A legal hold: what it covers stays, whatever a policy says."""

    name: Label = Field(description="Name of the hold, unique in the stream.")
    match: Match | None = Field(default=None, description="The messages that it covers; absent: all.")
    until: Time | None = Field(default=None, description="When it ends; absent: when it is removed.")


def _is_not_text(lifecycle: Lifecycle) -> bool:
    files = lifecycle.source.files
    return files is None or files.format != "Text"


class Lifecycle(Model):
    """A second source: what became of messages that are in the store."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="status updates are JSON objects: their source can't have format Text",
            cel="!has(self.source.files) || self.source.files.format != 'Text'",
            holds=_is_not_text,
        ),
    )

    source: Source = Field(description="Where records of messageId, status, result, error and time come from.")
    processing_timeout: Duration | None = Field(
        default=None,
        description="A message that is PROCESSING for so long has FAILED, with its retries; absent: it stays so.",
    )


class Sequences(Model):
    """Message sequences that wait for their members."""

    timeout: Duration = Field(
        description="A sequence that is not complete so long after its earliest message is overdue: counted in the "
        "status, and told by an Event."
    )


def _reads_text(spec: MessageStreamSpec) -> bool:
    return spec.source.files is not None and spec.source.files.format == "Text"


def _has_message_id(spec: MessageStreamSpec) -> bool:
    return spec.envelope.fields is None or spec.envelope.fields.message_id is not None


class MessageStreamSpec(Model):
    """What people ask of a stream."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="source.files.format Text needs envelope.format Custom: a line of text has no envelope of its own",
            cel="!has(self.source.files) || self.source.files.format != 'Text' || self.envelope.format == 'Custom'",
            holds=lambda spec: not _reads_text(spec) or spec.envelope.format == "Custom",
        ),
        Rule(
            message="envelope.fields needs messageId, unless source.files.format is Text",
            cel=(
                "!has(self.envelope.fields) || has(self.envelope.fields.messageId)"
                " || (has(self.source.files) && self.source.files.format == 'Text')"
            ),
            holds=lambda spec: _has_message_id(spec) or _reads_text(spec),
        ),
    )

    table: Table = Field(description="Where the store lies.")
    storage: Storage | None = Field(
        default=None, description="How the object store is reached; absent: by the pod's own identity."
    )
    source: Source = Field(description="Where messages come from.")
    trigger: StreamTrigger = Field(description="When they are taken.")
    envelope: Envelope = Field(default=Envelope(), description="How a record is read.")
    filter: Filter | None = Field(default=None, description="Which messages are stored; absent: all.")
    deduplication: Deduplication | None = Field(
        default=None, description="Within which time a repeated identifier is a duplicate; absent: ever."
    )
    expiration: Expiration = Field(default=Expiration(), description="What becomes of messages no longer of use.")
    retry: Retry = Field(default=Retry(), description="When failed messages may be tried again.")
    throttle: Throttle | None = Field(default=None, description="How fast messages are taken in; absent: no limit.")
    payload: Payload = Field(default=Payload(), description="How payloads are kept.")
    integrity: Integrity | None = Field(
        default=None, description="Messages are sealed with a key; absent: payloads have digests alone."
    )
    holds: Annotated[tuple[Hold, ...], Field(max_length=64), UniqueNames()] = Field(
        default=(), description="Legal holds; they beat every rule of every policy, and deletionPolicy Delete."
    )
    lifecycle: Lifecycle | None = Field(default=None, description="Where status updates come from.")
    sequences: Sequences | None = Field(default=None, description="How message sequences are watched; absent: counted.")
    suspend: Flag = Field(default=False, description="Whether no new run is started.")
    spark: Spark | None = Field(default=None, description="How the runs' Spark applications are sized.")
    run_history_limit: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=10, description="Number of ended runs that the status keeps."
    )


class MessageStream(Resource):
    """A message store: every message that arrives, kept once, in order, queryable."""

    kind: Literal["MessageStream"] = Field(default="MessageStream", description="Kind of the resource.")
    spec: MessageStreamSpec = Field(description="What is asked of the stream.")
    status: MessageStreamStatus | None = Field(default=None, description="What came of it.")
