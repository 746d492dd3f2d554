"""One batch: two passes over its records, and the writes that make it part of the store, in order.

The first pass returns to the driver what it needs to decide (hashes, stream and verdict of each record); the second
writes the messages. Claim checks and dead letters are written in between. The commit on ``messages`` ends the batch.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from sys import maxsize
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from messagestore_core.clock import microseconds, shifted
from messagestore_core.contract.ingest import BatchTimes, IngestCounts, IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.store.batches import batch_id
from messagestore_core.store.dead_letters import (
    DeadLetterKey,
    close_and_reopen,
    dead_letter_keys,
    set_aside_again,
    set_aside_before,
    set_aside_new,
)
from messagestore_core.store.delta_log import CommitNote, committed_batch
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import Batch
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.index.entries import MemoryRun, entries_of
from messagestore_jobs.index.keys import HASH_BYTES, Flags, Keys
from messagestore_jobs.index.read import Added
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.ingest.assign import Arrived, Assignment, assign, count
from messagestore_jobs.ingest.columns import TOMBSTONE, Columns, ordering_of
from messagestore_jobs.ingest.dead_letters import brought_along, read_dead_letters, set_aside_earlier
from messagestore_jobs.ingest.earlier_events import EarlierEvents
from messagestore_jobs.ingest.refusals import Numbers
from messagestore_jobs.ingest.sequences import KnownSequences
from messagestore_jobs.ingest.write import claim_check_payloads, set_assignment, set_clock, with_dead_letters
from messagestore_jobs.rows.claim_checks import write_claim_checks
from messagestore_jobs.rows.messages import append_few_messages, append_messages
from messagestore_jobs.session import is_for_little
from messagestore_jobs.source.arrivals import Due
from messagestore_jobs.source.columns import with_projections
from messagestore_jobs.source.records import Planned, portion_bytes, portions, read_planned


class Stopwatch:
    """Counts the seconds of one batch after the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        self._laps: dict[str, float] = {}
        self._since = self._clock()

    def lap(self, stage: str) -> None:
        """A stage of the batch ends, and the next one begins."""
        now = self._clock()
        self._laps[stage], self._since = round(now - self._since, 3), now

    def times(self) -> BatchTimes:
        """The times of a batch that was committed."""
        return BatchTimes(**{f"{stage}_seconds": took for stage, took in self._laps.items()})


@dataclass(frozen=True)
class BatchContext:
    """What all batches of one run share; ``stopwatch`` has the seconds of the last one."""

    spark: SparkSession
    run: str
    store: HeldStore
    task: IngestTask
    index: StoreIndex
    erased: Erased
    suffix: str
    columns: Columns
    events_since: int | None = None
    earlier_events: EarlierEvents | None = None
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    @cached_property
    def tombstones(self) -> MemoryRun:
        """The hashes of all erased ids."""
        hashes = Keys.of_bytes(self.erased.hashes(HASH_BYTES))
        return MemoryRun(entries_of(hashes, np.zeros(len(hashes), dtype=np.int64)))

    @cached_property
    def sequences(self) -> KnownSequences:
        """What the store knows of message sequences."""
        return KnownSequences(self.spark, self.store, self.task.memory)


def ingest_batch(
    context: BatchContext, due: Due, note: CommitNote, note_cut: Callable[[Planned, set[str]], None], *, alone: bool
) -> CommitNote:
    """Ingest one batch; return the note of its commit, with the totals so far.

    ``note`` is that of the last commit; ``alone`` tells whether the run probably has no other batch.
    """
    stopwatch = context.stopwatch
    stopwatch.begin()
    set_clock(context.spark, due.batch.at)
    read = _read(context, due)
    stopwatch.lap("read")
    assigned = _assign(context, read.arrived, due.batch, read.narrow)
    unfit = _unfit(context, read, assigned)
    decided = _decided(context, read, assigned, unfit)
    stored = decided.where("position >= 0")
    stopwatch.lap("decide")
    if context.task.claim_check_bytes is not None:
        _write_claim_checks(context, stored)
    tried = (due.batch.at, _id(context.task, due.batch))
    dead_letters = read_dead_letters(unfit.along, decided, unfit.left, unfit.portion, assigned, tried)
    dealt = _set_aside(context, due, dead_letters, any_unfit=len(unfit.rows) > 0)
    note_cut(due.batch, dealt.cut)
    stopwatch.lap("set_aside")
    counts = count(read.arrived, assigned, context.task.on_arrival_expired, dealt.earlier)
    if due.repeated:
        counts += _gone(dealt, read.arrived, unfit.rows)
    said = {"run": context.run, "totals": note.totals + counts, "events_since": context.events_since}
    done = note.model_copy(update={**said, "next_global_position": assigned.next_global})
    _commit(context, due.batch, stored, done, alone=alone)
    stopwatch.lap("commit")
    context.index.stored(_added(context.task, due.batch, read.arrived, assigned))
    context.sequences.stored(read.arrived.members, assigned.stored)
    return done


class _Read(NamedTuple):
    """A batch as it was read: its records with verdicts, and what the driver holds of each, in order of arrival."""

    validated: DataFrame
    narrow: pa.Table
    arrived: Arrived
    sizes: Numbers
    """How many records each part has."""


class _Unfit(NamedTuple):
    """The rows of all dead letters: those that the narrow columns have whole, and others, in portions."""

    rows: Numbers
    along: pa.Table | None
    left: Numbers
    portion: Numbers


def _read(context: BatchContext, due: Due) -> _Read:
    task, batch = context.task, due.batch
    records, parts = read_planned(context.spark, task, batch)
    validated = with_projections(records, context.columns.validated)
    narrow = validated.where("row >= 0").select(*context.columns.narrow).toArrow()
    if task.source.kind == "records":
        # Others are read in order.
        narrow = narrow.sort_by([("part", "ascending"), ("row", "ascending")])
    arrived = _arrived(narrow)
    sizes = np.bincount(narrow["part"].to_numpy(), minlength=parts)
    if due.read_before and task.source.kind != "records" and _spec_may_differ(arrived):
        starts = np.cumsum(sizes) - sizes
        earlier = set_aside_earlier(context.store, due.read_before, _id(task, batch), validated, starts, len(narrow))
        arrived = replace(arrived, refused_before=earlier.refused, set_aside=earlier.own)
    return _Read(validated, narrow, arrived, sizes)


def _unfit(context: BatchContext, read: _Read, assigned: Assignment) -> _Unfit:
    dead = read.arrived.dead
    unfit = dead | assigned.expired if context.task.on_arrival_expired == "DeadLetter" else dead.copy()
    unfit[assigned.refused.rows] = True
    rows = np.flatnonzero(unfit)
    along = brought_along(read.narrow, rows)
    left = rows if along is None else np.setdiff1d(rows, along["place"].to_numpy(), assume_unique=True)
    size = read.narrow["letter_bytes"].to_numpy()[left].astype(np.int64)
    return _Unfit(rows, along, left, portions(size, portion_bytes(context.spark)))


def _decided(context: BatchContext, read: _Read, assigned: Assignment, unfit: _Unfit) -> DataFrame:
    """All records with their positions; below 0 where they are not stored."""
    positions = replace(assigned, position=with_dead_letters(assigned.position, unfit.left, unfit.portion))
    set_assignment(context.spark, read.sizes, read.narrow["identity"].to_numpy(), positions)
    return with_projections(read.validated, context.columns.decided)


def _commit(context: BatchContext, batch: Planned, stored: DataFrame, note: CommitNote, *, alone: bool) -> None:
    task, rows = context.task, stored.select(*context.columns.rows)
    batch_of = (task.source_id, batch.number)
    if committed_batch(context.store, task.source_id) < batch.number:
        if alone and is_for_little(context.spark):
            append_few_messages(context.store, rows, note, batch_of, task.compression)
        else:
            append_messages(context.spark, context.store, rows, note, batch_of, task.compression, alone=alone)
    if committed_batch(context.store, task.source_id) != batch.number:
        raise RunFailedError("CommitLost", f"batch {batch.number} is not in the table after its commit; try again")


def _arrived(narrow: pa.Table) -> Arrived:
    expected, members = ordering_of(narrow)
    return Arrived(
        keys=Keys.of_column(narrow["id"]),
        streams=narrow["stream_name"].combine_chunks(),
        dead=narrow["dead"].to_numpy(),
        unselected=narrow["unselected"].to_numpy(),
        expired=narrow["expired"].to_numpy(),
        expected=expected,
        members=members,
        unknown=narrow["unknown"].to_numpy() if "unknown" in narrow.column_names else None,
    )


def _spec_may_differ(arrived: Arrived) -> bool:
    """Whether the verdict on any record depends on the time or on other records, so that it may change later."""
    return bool(len(arrived.expected.rows) or len(arrived.members.rows) or arrived.expired.any())


def _assign(context: BatchContext, arrived: Arrived, batch: Planned, narrow: pa.Table) -> Assignment:
    window, index, events = context.task.deduplication_window, context.index, context.earlier_events
    not_before = None if window is None else microseconds(shifted(batch.at, -window))

    def contains(keys: Keys) -> Flags:
        known = index.contains(keys, not_before)
        if TOMBSTONE in narrow.column_names:
            hashes = Keys.of_column(narrow[TOMBSTONE])
            known[context.tombstones.find(hashes).indices] = True
            known |= _purged(context, hashes, keys, known, batch.at)
        return known if events is None else known | events.contains(narrow, not_before)

    on_expired, sizes = context.task.on_arrival_expired, context.sequences.of
    return assign(arrived, contains, index.next_positions, index.next_global, on_expired, sizes)


def _purged(context: BatchContext, hashes: Keys, keys: Keys, known: Flags, at: datetime) -> Flags:
    """Which records have an id that is remembered as purged, and of which no message is in the store."""
    if context.task.stores_purged:
        return np.zeros(len(keys), dtype=np.bool_)
    purged = context.index.remembers(hashes, at) & ~known
    if context.task.deduplication_window is not None and purged.any():
        # For a message from before the window, the window has decided.
        purged[purged] = ~context.index.contains(keys.where(purged), None)
    return purged


def _write_claim_checks(context: BatchContext, decided: DataFrame) -> None:
    """Have executors write the payloads that become claim checks."""
    payloads = claim_check_payloads(decided, context.task, context.store.uri, context.suffix)
    with context.store.step("claim-check"):
        write_claim_checks(payloads).select("written").write.format("noop").mode("append").save()


def _id(task: IngestTask, batch: Planned) -> str:
    return batch_id(task.source_id, batch.number)


class _SetAside(NamedTuple):
    """How many dead letters an earlier batch set aside; and an earlier try of this one, of its records and in all."""

    cut: set[str]
    """The source URIs of dead letters that are cut."""
    earlier: int = 0
    own: int = 0
    own_in_all: int = 0


def _set_aside(context: BatchContext, due: Due, dead_letters: Iterator[pa.Table], *, any_unfit: bool) -> _SetAside:
    """Write new dead letters."""
    cut: set[str] = set()
    dead_letters = _noting_cut(dead_letters, cut)
    if context.task.source.kind == "records":
        for rows in dead_letters:
            set_aside_again(context.store, rows)
        return _SetAside(cut)
    known = set_aside_before(context.store, due.read_before if any_unfit or due.repeated else set())
    this, earlier, own = _id(context.task, due.batch), 0, 0
    again: set[DeadLetterKey] = set()
    for rows in dead_letters:
        by = set_aside_new(context.store, rows, known)
        again.update(dead_letter_keys(rows) if _reads_again(context.task) else ())
        earlier += sum(batch is not None and batch != this for batch in by)
        own += sum(batch == this for batch in by)
    if _reads_again(context.task) and due.read_before:
        close_and_reopen(context.store, _read_by(due), again, due.batch.at, this)
    return _SetAside(cut, earlier, own, sum(batch == this for batch in known.values()))


def _reads_again(task: IngestTask) -> bool:
    return isinstance(task.source, FilesSource) and task.source.read_again is not None


def _read_by(due: Due) -> dict[str, list[tuple[int, int]]]:
    """The offsets of records that a batch reads of the files that were read before, by source URI."""
    assert isinstance(due.batch, Batch)
    read: dict[str, list[tuple[int, int]]] = {}
    for r in due.batch.ranges:
        if r.source_uri in due.read_before:
            # A file that is read at once may be compressed, and offsets are those of what it unpacks to.
            end = maxsize if (r.start, r.end) == (0, r.file.size) else r.end
            read.setdefault(r.source_uri, []).append((r.start, end))
    return read


def _gone(dealt: _SetAside, arrived: Arrived, unfit: Numbers) -> IngestCounts:
    """The dead letters of an earlier try whose records the source no longer has."""
    kept = np.zeros(len(arrived.dead), dtype=np.bool_) if arrived.set_aside is None else arrived.set_aside.copy()
    kept[unfit] = False
    gone = dealt.own_in_all - dealt.own - int(kept.sum())
    return IngestCounts(received=gone, dead_lettered=gone)


def _noting_cut(dead_letters: Iterator[pa.Table], uris: set[str]) -> Iterator[pa.Table]:
    """The same dead letters; adds the source URIs of those that are cut."""
    for rows in dead_letters:
        uris.update(pc.struct_field(rows.filter(pc.field("cut"))["source"], "uri").to_pylist())
        yield rows


def _added(task: IngestTask, batch: Planned, arrived: Arrived, assigned: Assignment) -> Added:
    return Added(
        batch=(task.source_id, batch.number),
        ids=arrived.keys.where(assigned.stored),
        inserted_at=microseconds(batch.at),
        streams=assigned.streams,
        next_positions=assigned.next_positions,
        next_global=assigned.next_global,
    )
