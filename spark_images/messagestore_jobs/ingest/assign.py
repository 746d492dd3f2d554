"""Duplicates, positions and counts of one batch, from its records in order of arrival. No Spark, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.contract.ingest import IngestCounts
from messagestore_jobs.index.keys import Flags, Keys
from messagestore_jobs.ingest.refusals import Candidates, Expected, Members, Refused, Sizes, Streams, refuse_in_order

Positions = npt.NDArray[np.int64]

NONE = np.empty(0, dtype=np.int64)
EXPECTED_BY_NOBODY = Expected(NONE, NONE)
IN_NO_SEQUENCE = Members(NONE, pa.array([], pa.string()), NONE, NONE, NONE)
REFUSED = -2
"""The position of a refused record: it contradicts what came before."""


def unknown(sequences: pa.Array) -> Sizes:
    """Sizes of sequences in a store that has none of them."""
    return Sizes(np.zeros(len(sequences), dtype=np.int64), np.zeros(len(sequences), dtype=np.int64))


@dataclass(frozen=True)
class Arrived:
    """One batch, one record per row, in order of arrival.

    Attributes:
        keys: hashes of the message ids; arbitrary for records without an id.
        streams: stream names, or null.
        dead: records that were judged dead letters.
        unselected: records that the filter excludes.
        expired: records that had expired when they arrived.
        expected: records with an expected version.
        members: records of sequences.
        refused_before: records that an earlier batch refused for their expected version; None: none.
        set_aside: records that an earlier try of the batch set aside; None: none.
        unknown: records with a field that the envelope doesn't define; None: none can have one.
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
        """The records that are still to be judged."""
        refused_or_dropped = self.dead | self.unselected
        return ~refused_or_dropped if self.set_aside is None else ~(refused_or_dropped | self.set_aside)


@dataclass(frozen=True)
class Assignment:
    """What happens to each record.

    Attributes:
        position: in its stream; -1 for records that are not stored, REFUSED for refused ones.
        global_position: in the store; meaningless for records that are not stored.
        expired: records that are set aside or discarded as expired.
        duplicates: records that are in the store, or earlier in the batch.
        refused: records that are set aside because they contradict what came before.
        streams: the distinct streams of stored records.
        next_positions: the next position of each of ``streams``.
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
    """Decide what happens to all records of a batch.

    A record that is in the store already is a duplicate, even if it has expired. Expected versions are judged without
    duplicates and expired records.
    """
    open_ = arrived.open()
    # Look up all ids: selecting the open ones of a million costs more than looking up the few others.
    duplicates = open_ & contains(arrived.keys)
    if arrived.refused_before is not None:
        duplicates |= open_ & arrived.refused_before
    rows = np.flatnonzero(open_ & ~duplicates)
    streams = _streams(arrived.streams, rows, next_positions)
    passing = arrived.expired[rows] & (on_expired != "Store")
    again, refused, positions = _resolve(arrived, rows, streams, passing, sizes)
    duplicates[rows[again]] = True
    expired = np.zeros(len(open_), dtype=np.bool_)
    expired[rows] = passing & ~again
    position = np.full(len(open_), -1, dtype=np.int64)
    position[rows] = positions
    position[refused.rows] = REFUSED
    stored = position >= 0
    counts = np.bincount(streams.codes[positions >= 0], minlength=len(streams.names))
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
    """The counts of a batch; a record that an earlier batch set aside is a duplicate."""
    expired = int(assignment.expired.sum())
    unselected = int((arrived.unselected & ~arrived.dead).sum())
    # Includes records that an earlier try of the batch set aside.
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
    """Which of ``rows`` (ascending) have the id of an earlier one that is stored."""
    again = np.zeros(len(rows), dtype=np.bool_)
    candidates = np.zeros(len(keys), dtype=np.bool_)
    candidates[rows] = True
    order = keys.sorted_among(candidates)
    high = keys.high[order]
    same_as_before = np.flatnonzero(high[1:] == high[:-1]) + 1
    if not len(same_as_before):
        return again
    # Compare the few with an equal first half one by one.
    suspects = np.sort(order[np.union1d(same_as_before, same_as_before - 1)])
    seen: set[tuple[int, int]] = set()
    ids = zip(keys.high[suspects].tolist(), keys.low[suspects].tolist(), strict=True)
    for index, message_id in zip(np.searchsorted(rows, suspects).tolist(), ids, strict=True):
        again[index] = message_id in seen
        if stored[index]:
            seen.add(message_id)
    return again


def _streams(streams: pa.Array, rows: Positions, next_positions: Callable[[pa.Array], Positions]) -> Streams:
    encoded = pc.dictionary_encode(streams)
    names = encoded.dictionary
    heads = next_positions(names) if len(names) else np.empty(0, dtype=np.int64)
    return Streams(names, pc.fill_null(encoded.indices, 0).to_numpy()[rows], heads)


def _resolve(
    arrived: Arrived, rows: Positions, streams: Streams, passing: Flags, sizes: Callable[[pa.Array], Sizes]
) -> tuple[Flags, Refused, Positions]:
    """For ``rows``, none of which is in the store: duplicates within the batch, refused ones, and all positions."""
    again = _repeated(arrived.keys, rows, ~passing)
    positions = _positions(streams, ~again & ~passing)
    expected, members = arrived.expected.among(rows), arrived.members.among(rows)
    known = sizes(members.names)
    if expected.all_hold(positions) and members.all_agree(known, positions >= 0):
        return again, Refused(), positions
    high, low = arrived.keys.high[rows], arrived.keys.low[rows]
    candidates = Candidates(high, low, streams, passing, expected, members, known)
    again, refused = refuse_in_order(candidates, again)
    stored = ~again & ~passing
    stored[refused.rows] = False
    return again, Refused(rows[refused.rows], refused.reasons, refused.details), _positions(streams, stored)


def _positions(streams: Streams, stored: Flags) -> Positions:
    """The position of each stored record; -1 for the others."""
    positions = np.full(len(stored), -1, dtype=np.int64)
    kept = np.flatnonzero(stored)
    codes = streams.codes[kept]
    # By stream, then in order of arrival: sorting numbers of both is far faster than a stable sort.
    order = np.argsort((codes.astype(np.int64) << 32) | np.arange(len(codes)))
    counts = np.bincount(codes, minlength=len(streams.names))
    first = np.cumsum(counts) - counts
    in_stream = np.arange(len(codes)) - np.repeat(first, counts)
    positions[kept[order]] = np.repeat(streams.heads, counts) + in_stream
    return positions
