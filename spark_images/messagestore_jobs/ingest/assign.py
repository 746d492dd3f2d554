"""Duplicates, positions and counts of one batch, from its records in order of arrival. No Spark, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.contract.run_report import IngestCounts
from messagestore_jobs.index.keys import Flags, Keys
from messagestore_jobs.ingest.refusals import Candidates, Expected, Members, Refused, Sizes, judge

Positions = npt.NDArray[np.int64]

NONE = np.empty(0, dtype=np.int64)
EXPECTED_BY_NOBODY = Expected(NONE, NONE)
IN_NO_SEQUENCE = Members(NONE, pa.array([], pa.string()), NONE, NONE, NONE)
REFUSED = -2
"""The position of a record that contradicts what came before it."""


def unknown(sequences: pa.Array) -> Sizes:
    """What a store knows that has seen none of the sequences."""
    return Sizes(np.zeros(len(sequences), dtype=np.int64), np.zeros(len(sequences), dtype=np.int64))


@dataclass(frozen=True)
class Arrived:
    """One batch, a record a row, in order of arrival.

    Attributes:
        keys: hashes of the message ids; of what has none, any.
        streams: stream names; null where there is none.
        dead: what has been judged a dead letter.
        unselected: what the filter passed over.
        expired: what had expired when it arrived.
        expected: who expects a version of its stream.
        members: who belongs to a sequence.
        refused_before: which were refused for that by an earlier batch, from the same place; None where none was.
        set_aside: which an earlier try of the batch has set aside; None where none was.
        unknown: which have a field that nobody knows; None where none can.
    """

    keys: Keys
    streams: pa.Array
    dead: Flags
    unselected: Flags
    expired: Flags
    expected: Expected = EXPECTED_BY_NOBODY
    members: Members = IN_NO_SEQUENCE
    refused_before: Flags | None = None
    set_aside: Flags | None = None
    unknown: Flags | None = None

    def open(self) -> Flags:
        """What has yet to be judged."""
        judged = self.dead | self.unselected
        return ~judged if self.set_aside is None else ~(judged | self.set_aside)


@dataclass(frozen=True)
class Assignment:
    """What becomes of each record.

    Attributes:
        position: in its stream; -1 for what is not stored, REFUSED for what is refused.
        global_position: in the table; meaningless for what is not stored.
        stored: which records are stored.
        expired: which are set aside or discarded as expired.
        duplicates: which are in the store, or earlier in the batch.
        refused: which are set aside because they contradict what came before.
        streams: the distinct streams of what is stored, with the position each goes on at.
        next_positions: as ``streams``.
        next_global: the table's next global position.
    """

    position: Positions
    global_position: Positions
    stored: Flags
    expired: Flags
    duplicates: Flags
    refused: Refused
    streams: pa.Array
    next_positions: Positions
    next_global: int


def assign(
    arrived: Arrived,
    contains: Callable[[Keys], Flags],
    next_positions: Callable[[pa.Array], Positions],
    next_global: int,
    on_expired: Literal["DeadLetter", "Store", "Discard"],
    sizes: Callable[[pa.Array], Sizes] = unknown,
) -> Assignment:
    """Decide for a whole batch.

    A record that is in the store already is a duplicate, even when it has expired since: it is no loss. One that
    expects a version of its stream is judged once duplicates and what has expired are out.
    """
    open_ = arrived.open()
    # Of all, as taking the open ones out of a million ids costs more than asking for the few others.
    duplicates = open_ & contains(arrived.keys)
    if arrived.refused_before is not None:
        duplicates |= open_ & arrived.refused_before
    rows = np.flatnonzero(open_ & ~duplicates)
    streams = _streams(arrived.streams, rows, next_positions)
    passing = arrived.expired[rows] & (on_expired != "Store")
    again, refused, placed = _settle(arrived, rows, streams, passing, sizes)
    duplicates[rows[again]] = True
    expired = np.zeros(len(open_), dtype=np.bool_)
    expired[rows] = passing & ~again
    position = np.full(len(open_), -1, dtype=np.int64)
    position[rows] = placed
    position[refused.rows] = REFUSED
    stored = position >= 0
    counts = np.bincount(streams.codes[placed >= 0], minlength=len(streams.names))
    used = np.flatnonzero(counts)
    return Assignment(
        position=position,
        global_position=next_global + np.cumsum(stored) - 1,
        stored=stored,
        expired=expired,
        duplicates=duplicates,
        refused=refused,
        streams=streams.names.take(pa.array(used)),
        next_positions=(streams.heads + counts)[used],
        next_global=next_global + int(stored.sum()),
    )


def count(arrived: Arrived, assignment: Assignment, on_expired: str, set_aside_before: int) -> IngestCounts:
    """The batch in numbers; a record that was set aside before, from the same place, is a duplicate."""
    expired = int(assignment.expired.sum())
    unselected = int((arrived.unselected & ~arrived.dead).sum())
    # With what an earlier try of the batch has set aside.
    dead = len(arrived.dead) - unselected - int(arrived.open().sum()) + len(assignment.refused.rows)
    dead += expired if on_expired == "DeadLetter" else 0
    return IngestCounts(
        received=len(arrived.dead),
        stored=int(assignment.stored.sum()),
        duplicates=int(assignment.duplicates.sum()) + set_aside_before,
        dead_lettered=dead - set_aside_before,
        filtered=unselected,
        discarded=expired if on_expired == "Discard" else 0,
        unknown_fields=0 if arrived.unknown is None else int((assignment.stored & arrived.unknown).sum()),
    )


def _repeated(keys: Keys, rows: Positions, stored: Flags) -> Flags:
    """Of ``rows`` (ascending): whose ids came earlier among them, in one that is stored."""
    again = np.zeros(len(rows), dtype=np.bool_)
    asked = np.zeros(len(keys), dtype=np.bool_)
    asked[rows] = True
    order = keys.sorted_among(asked)
    high = keys.high[order]
    same_as_before = np.flatnonzero(high[1:] == high[:-1]) + 1
    if not len(same_as_before):
        return again
    # The few with an equal first half are told apart one by one.
    suspects = np.sort(order[np.union1d(same_as_before, same_as_before - 1)])
    seen: set[tuple[int, int]] = set()
    ids = zip(keys.high[suspects].tolist(), keys.low[suspects].tolist(), strict=True)
    for place, message_id in zip(np.searchsorted(rows, suspects).tolist(), ids, strict=True):
        again[place] = message_id in seen
        if stored[place]:
            seen.add(message_id)
    return again


@dataclass(frozen=True)
class _Streams:
    """Streams of records: their distinct names, which of those each record's is, and the position each goes on at."""

    names: pa.Array
    codes: npt.NDArray[np.integer]
    heads: Positions


def _streams(streams: pa.Array, rows: Positions, next_positions: Callable[[pa.Array], Positions]) -> _Streams:
    encoded = pc.dictionary_encode(streams)
    names = encoded.dictionary
    heads = next_positions(names) if len(names) else np.empty(0, dtype=np.int64)
    return _Streams(names, pc.fill_null(encoded.indices, 0).to_numpy()[rows], heads)


def _settle(
    arrived: Arrived, rows: Positions, streams: _Streams, passing: Flags, sizes: Callable[[pa.Array], Sizes]
) -> tuple[Flags, Refused, Positions]:
    """Of ``rows``, which the store doesn't hold: those that came before in the batch, the refused, all positions."""
    again = _repeated(arrived.keys, rows, ~passing)
    placed = _positions(streams, ~again & ~passing)
    expected, members = arrived.expected.among(rows), arrived.members.among(rows)
    known = sizes(members.names)
    if expected.all_hold(placed) and members.all_agree(known, placed >= 0):
        return again, Refused(), placed
    high, low = arrived.keys.high[rows], arrived.keys.low[rows]
    candidates = Candidates(high, low, streams.names, streams.codes, streams.heads, passing, expected, members, known)
    again, refused = judge(candidates, again)
    stored = ~again & ~passing
    stored[refused.rows] = False
    return again, Refused(rows[refused.rows], refused.reasons, refused.details), _positions(streams, stored)


def _positions(streams: _Streams, stored: Flags) -> Positions:
    """The position of each record that is stored, -1 for the others."""
    positions = np.full(len(stored), -1, dtype=np.int64)
    kept = np.flatnonzero(stored)
    codes = streams.codes[kept]
    # By stream, then in order of arrival: one sort of numbers that hold both is far quicker than a stable one.
    order = np.argsort((codes.astype(np.int64) << 32) | np.arange(len(codes)))
    counts = np.bincount(codes, minlength=len(streams.names))
    first = np.cumsum(counts) - counts
    in_stream = np.arange(len(codes)) - np.repeat(first, counts)
    positions[kept[order]] = np.repeat(streams.heads, counts) + in_stream
    return positions
