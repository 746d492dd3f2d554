"""ReplayJob: sends a selection of stored messages or dead letters to a destination."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, WithJsonSchema

from messagestore_core.contract import replay
from messagestore_core.contract.base import (
    MAX_COUNT,
    Categories,
    CorrelationIds,
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
from messagestore_operator.api import replay_rules
from messagestore_operator.api.common import Manual, Schedule, StreamRef
from messagestore_operator.api.destinations import Destination, NamedDestination, StartPoint
from messagestore_operator.api.model import Model
from messagestore_operator.api.replayjob_status import ReplayJobStatus
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.rules import immutable, immutable_without
from messagestore_operator.api.scalars import Duration, Time, UniqueNames
from messagestore_operator.api.spark import Spark

Reason = Annotated[
    DeadLetterReason, WithJsonSchema({"type": "string", "enum": [reason.value for reason in DeadLetterReason]})
]

Path: TypeAlias = tuple[str | int, ...]
"""A field, by its path in the manifest."""

MARKS = ("job", "position", "globalPosition", "streamName", "messageId", "attempt", "run", "time")
MarkTemplate = Annotated[str, Field(strict=True, max_length=1024, pattern=rf"^([^{{}}]|\{{({'|'.join(MARKS)})\}})*$")]


class TimeWindow(Model):
    """A time span that includes from and excludes to."""

    validations = (replay_rules.TIME_WINDOW,)

    from_: Time | None = Field(default=None, alias="from", description="Start of the span. If absent, the beginning.")
    to: Time | None = Field(default=None, description="End of the span. If absent, none.")


class PositionRange(replay.Interval, Model):
    """Positions from one to another, both included."""

    validations = (replay_rules.POSITIONS,)


class SequenceSelection(replay.Sequences, Model):
    """Members of message sequences."""

    validations = (replay_rules.SEQUENCES,)


class Select(Model):
    """Which messages are replayed: those that meet all given conditions. Without conditions, all."""

    validations = (replay_rules.SELECT,)

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
    expired: Literal["Skip", "Include"] | None = Field(
        default=None,
        description="Whether messages are sent that have expired by the time that they would be sent. If absent, Skip "
        "with a trigger, else Include.",
    )
    where: Where = ""
    limit: Annotated[Integer, Field(ge=1, le=MAX_COUNT)] | None = Field(
        default=None, description="Maximum number of messages, the first in order. If absent, all."
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


class ContinuousReplay(Model):
    """One run that never ends and sends messages as they come."""


class ReplayTrigger(Model):
    """When a replay selects again."""

    validations = (replay_rules.REPLAY_TRIGGER,)

    interval: Duration | None = Field(default=None, description="Selects again after this time.")
    schedule: Schedule | None = Field(default=None, description="Selects at times of a cron expression.")
    continuous: ContinuousReplay | None = Field(
        default=None, description="Sends messages all the time, as they come. Only with start, and to kafka and http."
    )
    manual: Manual | None = Field(
        default=None, description="Selects when annotation messagestore.dev/run-requested changes."
    )


class ReplayJobSpec(Model):
    """The desired state of a replay. Only suspend and rateLimit can be changed; with start also what is sent, and when.

    With start, streamRef, origin, order, start and the places of destinations can't be changed. A change counts for
    what is behind the cursor.
    """

    validations = replay_rules.REPLAY
    transitions = (
        immutable("streamRef", optional=False),
        immutable("origin", optional=False),
        immutable("order", optional=False),
        immutable("start", optional=True),
        replay_rules.SENT_TO,
        replay_rules.ADDED,
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
    order: replay.ReplayOrder = Field(default="PerStream", description="Order in which they are sent.")
    destination: Destination | None = Field(
        default=None, description="Where they are sent. Give this, or destinations."
    )
    destinations: Annotated[tuple[NamedDestination, ...], Field(max_length=16), UniqueNames()] = Field(
        default=(), description="Where they are sent, each to those whose where matches. Only with start."
    )
    trigger: ReplayTrigger | None = Field(
        default=None,
        description="When to send again: with start what is new (a subscription), with select.dueForRetry what is due "
        "for a retry. If absent, once.",
    )
    start: StartPoint | None = Field(
        default=None, description="Where a subscription begins, if it has no cursor in the store yet. Needs trigger."
    )
    rate_limit: RateLimit | None = Field(default=None, description="How fast messages are sent. If absent, no limit.")
    mark: Mark | None = Field(default=None, description="Headers that mark each replayed message.")
    mode: Literal["DryRun", "Run"] = Field(
        default="Run",
        description="DryRun only counts the selection, and with envelope Original says what would differ or fail.",
    )
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

    @property
    def places(self) -> tuple[tuple[Path, Destination], ...]:
        """Each place that messages are sent to, with its field."""
        if self.destination is not None:
            return ((("spec", "destination"), self.destination),)
        return tuple((("spec", "destinations", at), to) for at, to in enumerate(self.destinations))

    @property
    def target(self) -> StreamRef | None:
        """The stream that messages are sent to; there is one at most."""
        return next((to.stream for _, to in self.places if to.stream is not None), None)

    @property
    def goes_on(self) -> bool:
        """Whether it has one run that goes on, by ``trigger.continuous``."""
        return self.trigger is not None and self.trigger.continuous is not None


class ReplayJob(Resource):
    """Sends a selection of stored messages or dead letters again."""

    kind: Literal["ReplayJob"] = Field(default="ReplayJob", description="Kind of the resource.")
    spec: ReplayJobSpec = Field(description="The desired state of the replay.")
    status: ReplayJobStatus | None = Field(default=None, description="The observed state of the replay.")
