"""ReplayJob: a chosen part of the past, sent somewhere again."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from messagestore_operator.api.common import KafkaSecurity, Manual, Schedule, Storage, StreamRef
from messagestore_operator.api.model import Model
from messagestore_operator.api.replayjob_status import ReplayJobStatus
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.rules import Rule, TransitionRule, exactly_one, immutable
from messagestore_operator.api.scalars import Duration, Time
from messagestore_operator.api.spark import Spark
from messagestore_operator.api.text import (
    MAX_COUNT,
    Category,
    Count,
    Flag,
    Headers,
    Identifier,
    Integer,
    MessageStatus,
    MessageType,
    StreamName,
    Topic,
    Where,
)
from messagestore_operator.api.uris import BootstrapServers, StoreUri

DeadLetterReason = Literal[
    "Unparseable",
    "MissingField",
    "InvalidField",
    "InvalidStreamName",
    "PayloadTooLarge",
    "RecordTooLarge",
    "ExpiredOnArrival",
    "WrongExpectedVersion",
    "UnknownMessage",
    "FilterError",
    "Unselected",
    "RetriesExhausted",
]

MARKS = ("job", "position", "globalPosition", "streamName", "messageId", "attempt", "run", "time")
MarkTemplate = Annotated[str, Field(strict=True, max_length=1024, pattern=rf"^([^{{}}]|\{{({'|'.join(MARKS)})\}})*$")]


class TimeWindow(Model):
    """A half-open span of time: from is in it, to is not."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="from must be earlier than to",
            cel="!has(self.from) || !has(self.to) || self.from < self.to",
            holds=lambda window: (
                window.from_ is None or window.to is None or window.from_.datetime < window.to.datetime
            ),
        ),
    )

    from_: Time | None = Field(default=None, alias="from", description="The first instant; absent: from the beginning.")
    to: Time | None = Field(default=None, description="The first instant after it; absent: without end.")


class PositionRange(Model):
    """Positions from one to another, both included."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="from must not be greater than to",
            cel="!has(self.from) || !has(self.to) || self.from <= self.to",
            holds=lambda span: span.from_ is None or span.to is None or span.from_ <= span.to,
        ),
    )

    from_: Count | None = Field(
        default=None, alias="from", description="The first position; absent: from the beginning."
    )
    to: Count | None = Field(default=None, description="The last position; absent: without end.")


class SequenceSelection(Model):
    """Members of message sequences."""

    ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Identifiers of sequences; empty means all."
    )
    complete_only: Flag = Field(default=False, description="Whether only sequences with all their members are taken.")


class Select(Model):
    """Which messages are replayed: all conditions that are given must hold, none means everything."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="positions needs streamNames: each stream counts its own",
            cel="!has(self.positions) || self.streamNames.size() > 0",
            holds=lambda select: select.positions is None or len(select.stream_names) > 0,
        ),
    )

    time_window: TimeWindow | None = Field(default=None, description="By time.")
    global_positions: PositionRange | None = Field(default=None, description="By global position.")
    positions: PositionRange | None = Field(default=None, description="By position in each of streamNames.")
    stream_names: Annotated[tuple[StreamName, ...], Field(max_length=1000)] = Field(
        default=(), description="Stream names, any of them."
    )
    categories: Annotated[tuple[Category, ...], Field(max_length=100)] = Field(
        default=(), description="Categories, any of them."
    )
    types: Annotated[tuple[MessageType, ...], Field(max_length=100)] = Field(
        default=(), description="Message types, any of them."
    )
    statuses: Annotated[tuple[MessageStatus, ...], Field(max_length=5)] = Field(
        default=(), description="Statuses, any of them."
    )
    correlation_ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Correlation identifiers, any of them."
    )
    message_ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Message identifiers, any of them."
    )
    headers: Headers = Field(default={}, description="Headers with their values, all of them.")
    reasons: Annotated[tuple[DeadLetterReason, ...], Field(max_length=20)] = Field(
        default=(), description="Reasons of dead letters, any of them; only with origin DeadLetters."
    )
    sequences: SequenceSelection | None = Field(default=None, description="By message sequence.")
    due_for_retry: Flag = Field(default=False, description="Whether only failed messages whose retry is due are taken.")
    where: Where = Field(default="", description="A predicate over the canonical columns; empty means none.")
    limit: Annotated[Integer, Field(ge=1, le=MAX_COUNT)] | None = Field(
        default=None, description="At most so many, the first in order; absent: all."
    )


class FilesDestination(Model):
    """Objects whose names sort in replay order, with a manifest that is written last."""

    uri: StoreUri = Field(description="The folder that is written to.")
    format: Literal["JSONLines"] = Field(default="JSONLines", description="Format of the objects.")
    storage: Storage | None = Field(default=None, description="Where it differs from the table's.")


class KafkaDestination(Model):
    """A topic of a Kafka cluster."""

    bootstrap_servers: BootstrapServers = Field(description="Brokers to ask first, host:port separated by commas.")
    topic: Topic = Field(description="Name of the topic.")
    key: Literal["streamName", "category", "messageId", "correlationId", "sequenceId"] = Field(
        default="streamName", description="The field that becomes the record's key."
    )
    security: KafkaSecurity | None = Field(
        default=None, description="How clients authenticate, and whether the connection is encrypted. Absent: neither."
    )


class Destination(Model):
    """Where messages are sent."""

    validations: ClassVar[tuple[Rule, ...]] = (exactly_one("files", "kafka", "stream"),)

    files: FilesDestination | None = Field(default=None, description="Files in a folder.")
    kafka: KafkaDestination | None = Field(default=None, description="A topic of a Kafka cluster.")
    stream: StreamRef | None = Field(
        default=None, description="Another MessageStream of the namespace; its own one only with origin DeadLetters."
    )


class RateLimit(Model):
    """How fast messages are sent at most."""

    messages_per_second: Annotated[Integer, Field(ge=1, le=10_000_000)] = Field(description="Messages in a second.")


class Mark(Model):
    """What a replayed message is told apart by."""

    headers: Annotated[dict[str, MarkTemplate], Field(max_length=32)] = Field(
        default={},
        description="Headers to add; a value may hold " + ", ".join(f"{{{mark}}}" for mark in MARKS) + ".",
    )


class ReplayTrigger(Model):
    """When a replay selects anew."""

    validations: ClassVar[tuple[Rule, ...]] = (exactly_one("interval", "schedule", "manual"),)

    interval: Duration | None = Field(default=None, description="Again and again after this time.")
    schedule: Schedule | None = Field(default=None, description="At points in time.")
    manual: Manual | None = Field(default=None, description="When annotation messagestore.dev/run-requested changes.")


def _ends(spec: ReplayJobSpec) -> bool:
    return spec.active_deadline is not None or spec.ttl_after_finished is not None


def _goes_back(spec: ReplayJobSpec) -> bool:
    stream = spec.destination.stream
    return stream is not None and stream.name == spec.stream_ref.name


class ReplayJobSpec(Model):
    """What people ask of a replay; all but suspend and rateLimit stays as it was created."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="select.reasons needs origin DeadLetters: messages have none",
            cel="self.origin == 'DeadLetters' || self.select.reasons.size() == 0",
            holds=lambda spec: spec.origin == "DeadLetters" or len(spec.select.reasons) == 0,
        ),
        Rule(
            message="destination.stream must be another one than streamRef, unless origin is DeadLetters",
            cel=(
                "self.origin == 'DeadLetters' || !has(self.destination.stream)"
                " || self.destination.stream.name != self.streamRef.name"
            ),
            holds=lambda spec: spec.origin == "DeadLetters" or not _goes_back(spec),
        ),
        Rule(
            message="select.dueForRetry needs origin Messages: dead letters have no retries",
            cel="self.origin == 'Messages' || !self.select.dueForRetry",
            holds=lambda spec: spec.origin == "Messages" or not spec.select.due_for_retry,
        ),
        Rule(
            message="trigger needs select.dueForRetry and mode Run: else each run would send the same messages again",
            cel="!has(self.trigger) || (self.select.dueForRetry && self.mode == 'Run')",
            holds=lambda spec: spec.trigger is None or (spec.select.due_for_retry and spec.mode == "Run"),
        ),
        Rule(
            message="a replay with a trigger never ends: it has neither activeDeadline nor ttlAfterFinished",
            cel="!has(self.trigger) || (!has(self.activeDeadline) && !has(self.ttlAfterFinished))",
            holds=lambda spec: spec.trigger is None or not _ends(spec),
        ),
    )
    transitions: ClassVar[tuple[TransitionRule, ...]] = (
        immutable("streamRef", optional=False),
        immutable("origin", optional=False),
        immutable("select", optional=False),
        immutable("order", optional=False),
        immutable("destination", optional=False),
        immutable("trigger", optional=True),
        immutable("mark", optional=True),
        immutable("mode", optional=False),
        immutable("onFailed", optional=False),
        immutable("backoffLimit", optional=False),
        immutable("activeDeadline", optional=True),
        immutable("ttlAfterFinished", optional=True),
        immutable("spark", optional=True),
    )

    stream_ref: StreamRef = Field(description="The stream that is replayed.")
    origin: Literal["Messages", "DeadLetters"] = Field(
        default="Messages", description="Its messages, or what was set aside (a redrive)."
    )
    select: Select = Field(default=Select(), description="Which of them.")
    order: Literal["PerStream", "Global", "Sequence", "None"] = Field(
        default="PerStream", description="In which order they are sent."
    )
    destination: Destination = Field(description="Where they are sent.")
    trigger: ReplayTrigger | None = Field(
        default=None,
        description="With select.dueForRetry: when it selects anew and sends what is due by then; absent: once.",
    )
    rate_limit: RateLimit | None = Field(default=None, description="How fast at most; absent: as fast as it goes.")
    mark: Mark | None = Field(default=None, description="What a replayed message is told apart by.")
    mode: Literal["DryRun", "Run"] = Field(default="Run", description="DryRun only counts the selection.")
    on_failed: Literal["Fail", "Continue"] = Field(
        default="Fail",
        description="What a replay comes to that couldn't send messages, as they are not as they were stored, once all "
        "others were sent: Failed, or Complete and Degraded.",
    )
    suspend: Flag = Field(
        default=False, description="Whether to pause after the current batch; it goes on from there, nothing twice."
    )
    backoff_limit: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=3, description="Retries before the replay has failed."
    )
    active_deadline: Duration | None = Field(default=None, description="How long it may take in all.")
    ttl_after_finished: Duration | None = Field(
        default=None,
        description="How long the resource is kept after its end; absent: for ever. "
        "A tool that makes it again replays again.",
    )
    spark: Spark | None = Field(default=None, description="How the run's Spark application is sized.")


class ReplayJob(Resource):
    """A chosen part of the past, sent somewhere again."""

    kind: Literal["ReplayJob"] = Field(default="ReplayJob", description="Kind of the resource.")
    spec: ReplayJobSpec = Field(description="What is asked of the replay.")
    status: ReplayJobStatus | None = Field(default=None, description="What came of it.")
