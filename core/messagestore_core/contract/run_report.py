"""The run report: all output of a job but what it writes to stores and destinations."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field

from messagestore_core.contract.base import ContractModel, Count, Seconds


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


class TableState(ContractModel):
    """What the store holds after a run, by its tables' logs; ``bytes`` are those of the messages' files."""

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
    """Of those: the ones that a compaction would merge."""
    versions_since_checkpoint: int = 0
    """How many commits a reader of messages reads after the last checkpoint."""
    epoch: int | None = None
    """The newest epoch under which the store was written; the next grant needs a larger one."""
    dead_letters_by_reason: dict[str, int] | None = None
    """Absent where only files would tell it, and the run has not changed the dead letters."""


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


class RunError(ContractModel):
    """Why a run failed: a constant reason, and a message that says what to do."""

    reason: str
    message: str


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


class Unsent(ContractModel):
    """A subscription of the store: what a purge leaves for it, or takes from it."""

    name: str
    """Of the ReplayJob; of another namespace than the policy's with that before it, and a slash."""
    global_position: int | None = None
    """Its cursor; None: the store has none of it, so that all wait for it."""
    waiting: int = 0
    """Messages that rules leave only until this subscription has passed them."""
    waiting_since: datetime | None = None
    """Since when the first of them would have left; limits that depend on other messages don't count."""
    missed: int = 0
    """Messages behind the cursor that leave: it will never send them."""


class Preview(ContractModel):
    """What a purge would remove or scrub; ``by_rule`` counts a message under each rule that selects it."""

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
    """Messages that stay because a rule's predicate could not be evaluated on them."""
    subscriptions: tuple[Unsent, ...] = Field(default=(), exclude_if=lambda unsent: not unsent)
    """Those that rules wait for, as far as they were when this was frozen, and those that would miss messages."""


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
    """How many of them have a tombstone. Another run removes their bytes, by ``erase_due_by``."""
    held: int = 0
    dead_letters: int = 0
    tombstones_version: int | None = None
    """The version of table ``tombstones`` in which all of them have one."""
    erase_due_by: datetime | None = None
    erased_at: datetime | None = None
    """Only by an earlier release, whose purges removed the bytes themselves; so is ``not_erased``."""
    not_erased: tuple[str, ...] = ()


class PurgeOutcome(ContractModel):
    """Always a preview; the purge too where it was enforced and doesn't wait for approval."""

    kind: Literal["purge"] = "purge"
    preview: Preview
    purge: Purged | None = None
    awaiting_approval: bool = False
    table: TableState


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
    """Files removed from storage, over all tables: no version within the retention refers to them."""
    objects_removed: int = 0
    """Objects removed: claim checks that nothing refers to, and what runs that broke off left half written."""
    kept_because: str | None = None
    """Why files and log entries that are past their retention were kept, if they were."""
    table: TableState


class DeleteOutcome(ContractModel):
    """What was deleted; empty where the store was gone already."""

    kind: Literal["delete"] = "delete"
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What else lies in the folder; it is not the store's, and stays."""


Outcome = Annotated[
    IngestOutcome | PurgeOutcome | EraseOutcome | ReplayOutcome | MaintainOutcome | DeleteOutcome,
    Field(discriminator="kind"),
]


class Usage(ContractModel):
    """What a run used.

    There are no bytes that it read: Spark doesn't count most of what tasks read of Parquet.
    """

    driver_cpu_seconds: Seconds
    """Of the driver's container since its start; where there is none, of the run's own process and its JVM."""
    executor_cpu_seconds: Seconds = 0
    """Of the tasks in executors."""
    bytes_written: Count | None = None
    """By Spark's tasks; absent where Spark did not run."""

    @property
    def cpu_seconds(self) -> float:
        """Of driver and executors."""
        return round(self.driver_cpu_seconds + self.executor_cpu_seconds, 1)


class RunProgress(ContractModel):
    """Where a run is: its step, how much of it is done in the step's own unit, and the last line for people."""

    step: str
    done: int = 0
    total: int | None = None
    unit: str | None = None
    """What is counted, such as messages; absent in reports of earlier releases."""
    text: str | None = None


class RunReport(ContractModel):
    """One state of one run; of several reports the one with the highest ``sequence`` counts."""

    run: str
    sequence: int
    state: Literal["Running", "Succeeded", "Failed"]
    started_at: datetime
    finished_at: datetime | None = None
    progress: RunProgress | None = None
    """While the run lasts."""
    outcome: Outcome | None = None
    error: RunError | None = None
    usage: Usage | None = None
    """Once it has ended; absent in reports of earlier releases."""


def counts_of(outcome: Outcome | None) -> dict[str, int]:
    """The counts of an outcome by name, for a line of a log."""
    match outcome:
        case IngestOutcome():
            done = outcome.lifecycle.counts if outcome.lifecycle else UpdateCounts()
            updates = {"updates": done.applied, "expired": done.expired} if outcome.lifecycle else {}
            return {**outcome.counts.model_dump(by_alias=True), "batches": outcome.batches, **updates}
        case PurgeOutcome():
            names = {"purged", "archived", "scrubbed", "dead_letters"}
            purged = outcome.purge.model_dump(by_alias=True, include=names) if outcome.purge else {}
            return {"selected": outcome.preview.messages, "held": outcome.preview.held, **purged}
        case EraseOutcome():
            return {"erased": outcome.erased}
        case ReplayOutcome():
            names = {"replayed", "failed", "erased", "lost", "expired"}
            progress = outcome.progress.model_dump(by_alias=True, include=names)
            return {"selected": outcome.selection.messages, **progress}
        case MaintainOutcome():
            names = {"files_before", "files_after", "files_removed", "objects_removed"}
            return outcome.model_dump(by_alias=True, include=names)
        case DeleteOutcome():
            return {"deleted": len(outcome.deleted)}
        case None:
            return {}
