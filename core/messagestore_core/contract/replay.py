"""A replay: its task, with what it selects, and what it reports."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from messagestore_core.contract.base import (
    Categories,
    ContractModel,
    CorrelationIds,
    Count,
    Flag,
    Headers,
    Identifier,
    MessageIds,
    MessageTypes,
    Predicate,
    RunError,
    Statuses,
    StreamNames,
    Where,
)
from messagestore_core.contract.destinations import Destination, StreamDestination
from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.records import Integrity, Translator
from messagestore_core.contract.stores import TableState

ReplayOrder = Literal["PerStream", "Global", "Sequence", "None"]


class TimeWindow(ContractModel):
    """Half open: from ≤ time < to."""

    from_: datetime | None = Field(default=None, alias="from")
    to: datetime | None = None


class Interval(ContractModel):
    """Positions from one to another, both included."""

    from_: Count | None = Field(default=None, alias="from", description="First position. If absent, the beginning.")
    to: Count | None = Field(default=None, description="Last position. If absent, no end.")


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


class FrozenSelection(ContractModel):
    """What a replay is to send; dead letters have no positions."""

    table_version: int
    messages: int
    bytes: int
    first_global_position: int | None = None
    last_global_position: int | None = None


def _several(positions: object) -> object:
    """Read what an earlier release wrote: the lowest position alone, or null."""
    return () if positions is None else (positions,) if isinstance(positions, int) else positions


FailedPositions = Annotated[tuple[int, ...], BeforeValidator(_several)]


class ReplayProgress(ContractModel):
    """How far a replay is; ``failed`` counts messages that could not be sent."""

    replayed: int = 0
    failed: int = 0
    first_failed_positions: FailedPositions = Field(
        default=(), max_length=10, validation_alias=AliasChoices("firstFailedPositions", "firstFailedPosition")
    )
    """The lowest global positions of those; dead letters have none."""
    stored: int | None = None
    """Once all dead letters were sent to a stream: how many it stored."""
    dead_lettered: int | None = None
    """Of those sent: the ones that became dead letters again."""
    duplicates: int | None = None
    """Of those sent: the others, which the stream had already or doesn't want."""
    erased: int = 0
    """Selected, and not sent because they were erased since."""
    lost: int = 0
    """Selected, no longer in the store, and not erased."""
    first_lost_positions: tuple[int, ...] = Field(default=(), max_length=10)
    """The lowest global positions of those, as far as they are known; dead letters have none."""
    missed: int = 0
    """Of a subscription: messages that left the store behind the cursor before they were selected, by a purge."""
    expired: int = 0
    """Selected, and not sent because they had expired, where these are skipped."""
    withheld: int = 0
    """With envelope Original: messages that match and are not sent, as their record was not kept, or was scrubbed."""
    set_aside: int = 0
    """Messages that an HTTP endpoint refused, and that went to its ``deadLetter``."""
    percent: int = 0
    last_global_position: int | None = None
    messages_per_second: float | None = None


class CursorState(ContractModel):
    """The cursor of a subscription after a run, and what is behind it."""

    global_position: int
    """The last position that was sent, or passed over."""
    rounds: int = 0
    """Rounds that sent something."""
    resets: int = 0
    reset: str | None = None
    """The last request for a reset that was carried out."""
    sent: int = 0
    erased: int = 0
    missed: int = 0
    expired: int = 0
    set_aside: int = 0
    waiting: int = 0
    """Messages up to the position that wait for others of their sequences."""
    first_waiting: int | None = None
    """The position of the first of them."""
    lag: Lag
    taken_up: bool = False
    """Whether another resource of the same name left the cursor."""


class GoingOn(ContractModel):
    """How often a run that goes on has tried a destination since it took something; without a try all is well."""

    tries: Count = 0
    since: datetime | None = None
    """When it first failed for its reason."""
    last_try: datetime | None = None


class DestinationState(ContractModel):
    """One of several destinations of a subscription after a run that tried it."""

    name: str
    cursor: CursorState | None = None
    """Absent where the run failed before it had one."""
    error: RunError | None = None
    """Why it was not sent to, or not to the end; absent if all is well."""
    going_on: GoingOn | None = Field(default=None, exclude_if=lambda given: given is None)
    """Of a run that goes on and tries it again by itself."""


class ReplayOutcome(ContractModel):
    """The frozen selection and how far it has been sent."""

    kind: Literal["replay"] = "replay"
    selection: FrozenSelection
    progress: ReplayProgress
    complete: bool = False
    findings: tuple[str, ...] = Field(default=(), exclude_if=lambda findings: not findings)
    """Of a dry run of records as they came: what would differ or fail, in words."""
    round: int | None = None
    """Of a replay in rounds: the number of this round, from 1; 0 before the first."""
    redelivered: int | None = None
    """Of a replay in rounds: the messages sent over all rounds."""
    cursor: CursorState | None = None
    """Of a subscription with one destination."""
    destinations: tuple[DestinationState, ...] = Field(default=(), exclude_if=lambda states: not states)
    """Of a subscription with several: those that the run has tried. The other figures are sums over them."""
    tombstones: int | None = None
    """Of a continuous replay: it sends nothing any more that this version of table ``tombstones`` has erased."""
    table: TableState | None = None
    """The store that was read; absent where the replay writes nothing to it, or has sent nothing."""
    target_table: TableState | None = None
    """The same of another stream's store that it was sent to."""

    @property
    def takes(self) -> bool:
        """Whether the destination of a subscription takes what is sent, or one of several does."""
        return self.cursor is not None or any(one.cursor and one.error is None for one in self.destinations)
