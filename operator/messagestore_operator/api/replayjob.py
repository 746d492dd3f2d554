"""ReplayJob: sends a selection of stored messages or dead letters to a destination."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from messagestore_core.contract import run_document
from messagestore_core.contract.base import (
    MAX_COUNT,
    Categories,
    CorrelationIds,
    Count,
    Flag,
    Headers,
    Integer,
    MessageIds,
    MessageTypes,
    Statuses,
    StreamNames,
    Where,
)
from messagestore_core.reasons import DeadLetterReason
from messagestore_operator.api import rules
from messagestore_operator.api.common import KafkaSecurity, Manual, Schedule, Storage, StreamRef
from messagestore_operator.api.model import Model
from messagestore_operator.api.replayjob_status import ReplayJobStatus
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.rules import immutable, immutable_without
from messagestore_operator.api.scalars import BootstrapServers, Duration, StoreUri, Time, Topic
from messagestore_operator.api.spark import Spark

Reason = Annotated[
    DeadLetterReason, WithJsonSchema({"type": "string", "enum": [reason.value for reason in DeadLetterReason]})
]

MARKS = ("job", "position", "globalPosition", "streamName", "messageId", "attempt", "run", "time")
MarkTemplate = Annotated[str, Field(strict=True, max_length=1024, pattern=rf"^([^{{}}]|\{{({'|'.join(MARKS)})\}})*$")]


class TimeWindow(Model):
    """A time span that includes from and excludes to."""

    validations = (rules.TIME_WINDOW,)

    from_: Time | None = Field(default=None, alias="from", description="Start of the span. If absent, the beginning.")
    to: Time | None = Field(default=None, description="End of the span. If absent, none.")


class PositionRange(run_document.Interval, Model):
    """Positions from one to another, both included."""

    validations = (rules.POSITIONS,)


class SequenceSelection(run_document.Sequences, Model):
    """Members of message sequences."""


class Select(Model):
    """Which messages are replayed: those that meet all given conditions. Without conditions, all."""

    validations = (rules.SELECT,)

    time_window: TimeWindow | None = Field(default=None, description="By time.")
    global_positions: PositionRange | None = Field(default=None, description="By global position.")
    positions: PositionRange | None = Field(default=None, description="By position in each of streamNames.")
    stream_names: StreamNames = ()
    categories: Categories = ()
    types: MessageTypes = ()
    statuses: Statuses = ()
    correlation_ids: CorrelationIds = ()
    message_ids: MessageIds = ()
    headers: Headers = {}
    reasons: Annotated[tuple[Reason, ...], Field(max_length=20)] = Field(
        default=(), description="Reasons of dead letters, any of them. Only with origin DeadLetters."
    )
    sequences: SequenceSelection | None = Field(default=None, description="By message sequence.")
    due_for_retry: Flag = Field(
        default=False, description="If true, only failed messages whose retry is due are selected."
    )
    where: Where = ""
    limit: Annotated[Integer, Field(ge=1, le=MAX_COUNT)] | None = Field(
        default=None, description="Maximum number of messages, the first in order. If absent, all."
    )


class FilesDestination(Model):
    """Objects whose names sort in replay order, and a manifest, written last."""

    uri: StoreUri = Field(
        description="The folder that is written to. It must be empty, and must not contain, or be in, a source or a "
        "table's folder."
    )
    format: Literal["JSONLines"] = Field(default="JSONLines", description="Format of the objects.")
    storage: Storage | None = Field(
        default=None, description="How to reach the folder, if that differs from the table's storage."
    )


class KafkaDestination(Model):
    """A topic of a Kafka cluster."""

    bootstrap_servers: BootstrapServers = Field(description="Brokers to ask first, host:port separated by commas.")
    topic: Topic = Field(description="Name of the topic.")
    key: run_document.RecordKey = Field(default="streamName", description="The field that becomes the record's key.")
    security: KafkaSecurity | None = Field(
        default=None, description="Authentication and encryption of the connection. If absent, neither is used."
    )


class Destination(Model):
    """Where messages are sent."""

    validations = (rules.DESTINATION,)

    files: FilesDestination | None = Field(default=None, description="Files in a folder.")
    kafka: KafkaDestination | None = Field(default=None, description="A topic of a Kafka cluster.")
    stream: StreamRef | None = Field(
        default=None,
        description="A MessageStream of the namespace. It may be streamRef only with origin DeadLetters.",
    )


class RateLimit(Model):
    """How fast messages are sent."""

    messages_per_second: Annotated[Integer, Field(ge=1, le=10_000_000)] = Field(
        description="Maximum messages per second."
    )


class Mark(Model):
    """Headers that mark each replayed message."""

    headers: Annotated[dict[str, MarkTemplate], Field(max_length=32)] = Field(
        default={},
        description="Headers to add. A value may contain " + ", ".join(f"{{{mark}}}" for mark in MARKS) + ".",
    )


class StartPoint(Model):
    """The first message that is sent if there is no cursor yet; it is sent too. Give one field."""

    validations = rules.START

    at: Literal["Beginning", "Now"] | None = Field(
        default=None, description="Beginning: the first message of the store. Now: what comes from now on."
    )
    global_position: Count | None = Field(default=None, description="The message at this global position.")
    inserted_at: Time | None = Field(
        default=None, description="The first message that was stored at this time, or later."
    )


class ReplayTrigger(Model):
    """When a replay selects again."""

    validations = (rules.REPLAY_TRIGGER,)

    interval: Duration | None = Field(default=None, description="Selects again after this time.")
    schedule: Schedule | None = Field(default=None, description="Selects at times of a cron expression.")
    manual: Manual | None = Field(
        default=None, description="Selects when annotation messagestore.dev/run-requested changes."
    )


class ReplayJobSpec(Model):
    """The desired state of a replay. Only suspend and rateLimit can be changed; with start also what is sent, and when.

    With start, streamRef, origin, order, start and the place of the destination can't be changed. A change counts for
    what is behind the cursor.
    """

    validations = rules.REPLAY
    transitions = (
        immutable("streamRef", optional=False),
        immutable("origin", optional=False),
        immutable("order", optional=False),
        immutable("start", optional=True),
        rules.SENT_TO,
        *(
            immutable_without("start", field, optional=False)
            for field in ("select", "mode", "onFailed", "backoffLimit")
        ),
        *(immutable_without("start", field, optional=True) for field in ("trigger", "mark", "spark")),
        immutable("activeDeadline", optional=True),
        immutable("ttlAfterFinished", optional=True),
    )

    stream_ref: StreamRef = Field(description="The stream that is replayed.")
    origin: Literal["Messages", "DeadLetters"] = Field(
        default="Messages", description="Whether messages or dead letters are sent. Sending dead letters is a redrive."
    )
    select: Select = Field(default=Select(), description="Which of them are sent. By default, all.")
    order: run_document.ReplayOrder = Field(default="PerStream", description="Order in which they are sent.")
    destination: Destination = Field(description="Where they are sent.")
    trigger: ReplayTrigger | None = Field(
        default=None,
        description="When to send again: with start what is new (a subscription), with select.dueForRetry what is due "
        "for a retry. If absent, once.",
    )
    start: StartPoint | None = Field(
        default=None,
        description="Where a subscription begins, if it has no cursor in the store yet. Needs trigger.",
    )
    rate_limit: RateLimit | None = Field(default=None, description="How fast messages are sent. If absent, no limit.")
    mark: Mark | None = Field(default=None, description="Headers that mark each replayed message.")
    mode: Literal["DryRun", "Run"] = Field(default="Run", description="DryRun only counts the selection.")
    on_failed: Literal["Fail", "Continue"] = Field(
        default="Fail",
        description="How a replay ends if some messages were not sent because they no longer match what was stored: "
        "Fail (Failed) or Continue (Complete and Degraded).",
    )
    suspend: Flag = Field(
        default=False,
        description="If true, the replay pauses after the current batch. Set to false, it continues there.",
    )
    backoff_limit: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=3, description="Failed runs that are retried before the replay fails."
    )
    active_deadline: Duration | None = Field(
        default=None, description="Maximum duration of the replay, without pauses."
    )
    ttl_after_finished: Duration | None = Field(
        default=None,
        description="When to delete the resource after the replay has ended. If absent, never. A tool that creates it "
        "again starts the replay again.",
    )
    spark: Spark | None = Field(default=None, description="Size and settings of the run's Spark application.")


class ReplayJob(Resource):
    """Sends a selection of stored messages or dead letters again."""

    kind: Literal["ReplayJob"] = Field(default="ReplayJob", description="Kind of the resource.")
    spec: ReplayJobSpec = Field(description="The desired state of the replay.")
    status: ReplayJobStatus | None = Field(default=None, description="The observed state of the replay.")
