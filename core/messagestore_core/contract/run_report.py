"""The run report: the only thing that a job tells back."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field

from messagestore_core.contract.base import ContractModel


class Counts(ContractModel):
    """Whole numbers by name, which add up."""

    def __add__(self, other: Self) -> Self:
        """Both taken together."""
        mine, theirs = self.model_dump(), other.model_dump()
        return type(self)(**{name: mine[name] + theirs[name] for name in mine})

    def __sub__(self, other: Self) -> Self:
        """What was counted since."""
        mine, theirs = self.model_dump(), other.model_dump()
        return type(self)(**{name: mine[name] - theirs[name] for name in mine})


class IngestCounts(Counts):
    """What became of the records received; received is always the sum of the others, but for ``unknown_fields``."""

    received: int = 0
    stored: int = 0
    duplicates: int = 0
    dead_lettered: int = 0
    filtered: int = 0
    discarded: int = 0
    unknown_fields: int = 0
    """Of those stored: how many had a field that their envelope doesn't know, which is nowhere in the store."""


class UpdateCounts(Counts):
    """What became of status updates, and of messages whose time passed.

    ``received`` is applied + stale + dead_lettered + those that wait for their message, less what was erased meanwhile.
    """

    received: int = 0
    applied: int = 0
    stale: int = 0
    dead_lettered: int = 0
    """What was no update, and what waited for its message in vain."""
    exhausted: int = 0
    """How often a message failed and had no retry left."""
    expired: int = 0
    """Messages that became EXPIRED by the clock."""
    retried: int = 0
    """Of those applied: the ones that gave a message out of retries one more try."""
    timed_out: int = 0
    """Attempts that failed by the clock, as no answer came."""


class TableState(ContractModel):
    """What the store holds after a run, read from the tables themselves; bytes are those of the messages' files."""

    version: int
    messages: int
    dead_letters: int
    """Those that are open: not redriven."""
    bytes: int
    oldest_message_time: datetime | None = None
    newest_message_time: datetime | None = None
    last_global_position: int | None = None
    files: int = 0
    """Of messages."""
    small_files: int = 0
    """Of those, the ones that a compaction would put together."""
    versions_since_checkpoint: int = 0
    """How many commits a reader of messages reads beside the last checkpoint."""
    epoch: int | None = None
    """The newest epoch under which the store was written; the next grant needs a larger one."""


class Loss(ContractModel):
    """Records of Kafka that were gone before they were read, over the source's life.

    The others tell of the last ones that were found: [start, end) of a partition, and why.
    """

    records: int
    """As far as offsets tell; some of them may not have held one."""
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
    """Of those: the ones that wait for longer than they are to."""
    oldest_time: datetime | None = None
    oldest_id: str | None = Field(default=None, max_length=1024)


class RunError(ContractModel):
    """Why a run failed: a constant reason and words that say what to do."""

    reason: str
    message: str


class UpkeepDone(ContractModel):
    """What came of maintenance that was asked of an ingest; with an error, nothing that matters."""

    asked: int
    table_version: int | None = None
    small_files: int | None = None
    error: RunError | None = None


class IngestOutcome(ContractModel):
    """Of this run, and over the store's life."""

    kind: Literal["ingest"] = "ingest"
    counts: IngestCounts
    totals: IngestCounts
    batches: int
    table: TableState
    sequences: SequenceState | None = None
    """Absent: no message belongs to a sequence."""
    lag: Lag
    loss: Loss | None = None
    lifecycle: LifecycleOutcome | None = None
    """Absent where the stream has no updates, and no message expires."""
    upkeep: UpkeepDone | None = None
    """Absent where none was asked for, or it is not through."""


class Preview(ContractModel):
    """What a purge would take, by rule; a message that several rules select counts under each."""

    id: str
    table_version: int
    as_of: datetime
    messages: int
    bytes: int
    oldest: datetime | None = None
    newest: datetime | None = None
    by_rule: dict[str, int] = {}
    held: int = 0
    undecided: int = 0
    """Messages that stay as a rule's predicate could not be told on them."""


class Purged(ContractModel):
    """What a purge did."""

    run: str
    at: datetime
    table_version_before: int
    table_version_after: int
    purged: int = 0
    archived: int = 0
    scrubbed: int = 0
    erased: int = 0
    held: int = 0
    dead_letters: int = 0
    erased_at: datetime | None = None
    erase_due_by: datetime | None = None
    not_erased: tuple[str, ...] = ()
    """Where copies may be that no erasure reaches, in words."""


class PurgeOutcome(ContractModel):
    """A preview always; the purge where it was enforced and not waiting for approval."""

    kind: Literal["purge"] = "purge"
    preview: Preview
    purge: Purged | None = None
    awaiting_approval: bool = False
    table: TableState


class FrozenSelection(ContractModel):
    """What a replay set out to send; for dead letters the positions are absent."""

    table_version: int
    messages: int
    bytes: int
    first_global_position: int | None = None
    last_global_position: int | None = None


def _several(positions: object) -> object:
    """An earlier release wrote down the lowest alone, or null."""
    return () if positions is None else (positions,) if isinstance(positions, int) else positions


FailedPositions = Annotated[tuple[int, ...], BeforeValidator(_several)]


class ReplayProgress(ContractModel):
    """How far a replay is; failed counts what was selected and could not be sent."""

    replayed: int = 0
    failed: int = 0
    first_failed_positions: FailedPositions = Field(
        default=(), max_length=10, validation_alias=AliasChoices("firstFailedPositions", "firstFailedPosition")
    )
    """The lowest global positions of those; dead letters have none."""
    stored: int | None = None
    """Of dead letters that were sent to a stream to their end: those that it took in."""
    dead_lettered: int | None = None
    """Of those: the ones that it set aside again."""
    duplicates: int | None = None
    """Of those: the others, that it had already or doesn't want."""
    erased: int = 0
    """Selected, and not sent because it was erased since."""
    lost: int = 0
    """Selected, and neither in the store any more nor erased."""
    first_lost_positions: tuple[int, ...] = Field(default=(), max_length=10)
    """The lowest global positions of those, as far as they are known; dead letters have none."""
    percent: int = 0
    last_global_position: int | None = None
    messages_per_second: float | None = None


class ReplayOutcome(ContractModel):
    """The frozen selection and how far it has been sent."""

    kind: Literal["replay"] = "replay"
    selection: FrozenSelection
    progress: ReplayProgress
    complete: bool = False
    round: int | None = None
    """Of a replay that selects in rounds: which one it is about, counted from 1; 0 before the first."""
    redelivered: int | None = None
    """Of such a replay: the messages sent over all its rounds."""


class EraseOutcome(ContractModel):
    """What was erased for good, and when the next erasure is due."""

    kind: Literal["erase"] = "erase"
    erased: int = 0
    erased_at: datetime | None = None
    erase_due_by: datetime | None = None
    not_erased: tuple[str, ...] = ()
    table: TableState


class MaintainOutcome(ContractModel):
    """What maintenance did; files and bytes are those of the messages that the table refers to."""

    kind: Literal["maintain"] = "maintain"
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    table_version_before: int
    table_version_after: int
    tables_compacted: int = 0
    files_removed: int = 0
    """From storage, over all tables: what no version within the retention refers to."""
    objects_removed: int = 0
    """Beside the tables: claim checks that nothing refers to, and what broken runs left half written."""
    kept_because: str | None = None
    """Why files and log entries that are past their retention were kept, if they were."""
    table: TableState


class DeleteOutcome(ContractModel):
    """What was deleted; nothing where the store was gone already."""

    kind: Literal["delete"] = "delete"
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What else lies in the folder; it is not the store's, and was not touched."""


Outcome = Annotated[
    IngestOutcome | PurgeOutcome | EraseOutcome | ReplayOutcome | MaintainOutcome | DeleteOutcome,
    Field(discriminator="kind"),
]


class RunProgress(ContractModel):
    """Where a run is: its step, how much of it is done in whatever the step counts, and the last line for people."""

    step: str
    done: int = 0
    total: int | None = None
    text: str | None = None


class RunReport(ContractModel):
    """One state of one run; of several the highest sequence counts."""

    run: str
    sequence: int
    state: Literal["Running", "Succeeded", "Failed"]
    started_at: datetime
    finished_at: datetime | None = None
    progress: RunProgress | None = None
    """While the run lasts."""
    outcome: Outcome | None = None
    error: RunError | None = None
