"""Duplicates, positions and counts of one batch, from its records in order of arrival. No Spark, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from messagestore_jobs.contract.run_report import IngestCounts
from messagestore_jobs.ingest.keys import Flags, Hashes

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrived:
    """One batch, a record a row, in order of arrival.

    Attributes:
        hashes: xxhash64 of the id.
        ids: message ids; null where there is none.
        streams: stream names; null where there is none.
        dead: what has been judged a dead letter.
        unselected: what the filter passed over.
        expired: what had expired when it arrived.
    """

    hashes: Hashes
    ids: pa.Array
    streams: pa.Array
    dead: Flags
    unselected: Flags
    expired: Flags


@dataclass(frozen=True)
class Assignment:
    """What becomes of each record.

    Attributes:
        position: in its stream; -1 for what is not stored.
        global_position: in the table; meaningless for what is not stored.
        stored: which records are stored.
        expired: which are set aside or discarded as expired.
        duplicates: which are in the store, or earlier in the batch.
        streams: the distinct streams of what is stored, with the position each goes on at.
        next_positions: as ``streams``.
        next_global: the table's next global position.
    """

    position: Positions
    global_position: Positions
    stored: Flags
    expired: Flags
    duplicates: Flags
    streams: pa.Array
    next_positions: Positions
    next_global: int


def assign(
    arrived: Arrived,
    contains: Callable[[Hashes, pa.Array], Flags],
    next_positions: Callable[[pa.Array], Positions],
    next_global: int,
    on_expired: Literal["DeadLetter", "Store", "Discard"],
) -> Assignment:
    """Decide for a whole batch.

    A record that is in the store already is a duplicate, even when it has expired since: it is no loss.
    """
    open_ = ~(arrived.dead | arrived.unselected)
    duplicates = np.zeros(len(open_), dtype=np.bool_)
    asked = np.flatnonzero(open_)
    duplicates[asked] = contains(arrived.hashes[asked], arrived.ids.take(pa.array(asked)))
    passing = arrived.expired & (on_expired != "Store")
    candidates = np.flatnonzero(open_ & ~duplicates)
    again = _repeated(arrived.hashes[candidates], arrived.ids.take(pa.array(candidates)), ~passing[candidates])
    duplicates[candidates[again]] = True
    expired = open_ & ~duplicates & passing
    kept = np.flatnonzero(open_ & ~duplicates & ~expired)
    stored = np.zeros(len(open_), dtype=np.bool_)
    stored[kept] = True
    position = np.full(len(open_), -1, dtype=np.int64)
    names, position[kept], heads = _positions(arrived.streams.take(pa.array(kept)), next_positions)
    return Assignment(
        position=position,
        global_position=next_global + np.cumsum(stored) - 1,
        stored=stored,
        expired=expired,
        duplicates=duplicates,
        streams=names,
        next_positions=heads,
        next_global=next_global + len(kept),
    )


def count(arrived: Arrived, assignment: Assignment, on_expired: str, set_aside_before: int) -> IngestCounts:
    """The batch in numbers; a record that was set aside before, from the same place, is a duplicate."""
    expired = int(assignment.expired.sum())
    dead = int(arrived.dead.sum()) + (expired if on_expired == "DeadLetter" else 0)
    return IngestCounts(
        received=len(arrived.dead),
        stored=int(assignment.stored.sum()),
        duplicates=int(assignment.duplicates.sum()) + set_aside_before,
        dead_lettered=dead - set_aside_before,
        filtered=int((arrived.unselected & ~arrived.dead).sum()),
        discarded=expired if on_expired == "Discard" else 0,
    )


def _repeated(hashes: Hashes, ids: pa.Array, stored: Flags) -> Flags:
    """Which ids came earlier in the array, among those that are stored."""
    again = np.zeros(len(hashes), dtype=np.bool_)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    same_as_before = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if not len(same_as_before):
        return again
    # Equal hashes are candidates only; the few that there are, are told apart by their ids.
    suspects = np.sort(order[np.union1d(same_as_before, same_as_before - 1)])
    seen: set[str] = set()
    for place, message_id in zip(suspects.tolist(), ids.take(pa.array(suspects)).to_pylist(), strict=True):
        again[place] = message_id in seen
        if stored[place]:
            seen.add(message_id)
    return again


def _positions(
    streams: pa.Array, next_positions: Callable[[pa.Array], Positions]
) -> tuple[pa.Array, Positions, Positions]:
    """The distinct streams, the position of each record, and the position each stream goes on at."""
    encoded = pc.dictionary_encode(streams)
    codes = encoded.indices.to_numpy()
    names = encoded.dictionary
    if not len(codes):
        return names, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    heads = next_positions(names)
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(names))
    first = np.cumsum(counts) - counts
    positions = np.empty(len(codes), dtype=np.int64)
    in_stream = np.arange(len(codes)) - np.repeat(first, counts)
    positions[order] = np.repeat(heads, counts) + in_stream
    return names, positions, heads + counts
