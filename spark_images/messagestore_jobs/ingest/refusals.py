"""Records that are refused for what came before them: by the version they expect, or by their sequence.

They are judged one by one, in order of arrival. No Spark, no I/O.

A stream's version is the position of its last message, -1 before the first. A record whose expectation doesn't hold is
refused: it takes no position, and its id is not in the store.

A sequence is numbered from 1. Its size is what the first member says that tells one, by its size or by the end flag on
the last; a member that contradicts it, or lies past it, is refused.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_core.reasons import DeadLetterReason
from messagestore_jobs.index.keys import Flags, Words

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Expected:
    """The records of a batch that carry an expected version.

    Attributes:
        rows: their places in the batch, ascending.
        versions: what each expects.
    """

    rows: Numbers
    versions: Numbers

    def among(self, chosen: Numbers) -> "Expected":
        """Of a part of the batch (ascending places); the rows are places in that part."""
        at, inside = places_among(self.rows, chosen)
        return Expected(at, self.versions[inside])

    def all_hold(self, positions: Numbers) -> bool:
        """Whether nothing is refused, where ``positions`` (-1: not stored) were told as if nobody expected anything.

        By induction over the order of arrival: the first one that is refused would not hold here either.
        """
        told = positions[self.rows]
        return bool(((told < 0) | (told == self.versions + 1)).all())


def wrong_version(expected: int, stream: str, actual: int) -> str:
    """As message-db words it."""
    return f"Wrong expected version: {expected} (Stream: {stream}, Stream Version: {actual})"


def places_among(rows: Numbers, chosen: Numbers) -> tuple[Numbers, Flags]:
    """Where those of ``rows`` that are among ``chosen`` (both ascending) stand in it, and which of them are."""
    at = np.searchsorted(chosen, rows)
    inside = at < len(chosen)
    inside[inside] = chosen[at[inside]] == rows[inside]
    return at[inside], inside


@dataclass(frozen=True)
class Sizes:
    """What is known of sequences, in some order: their size and their largest number so far; 0 where neither is."""

    sizes: Numbers
    lasts: Numbers


@dataclass(frozen=True)
class Members:
    """The records of a batch that belong to a sequence.

    Attributes:
        rows: their places in the batch, ascending.
        names: the distinct sequences.
        codes: which of ``names`` each one's is.
        numbers: its place in the sequence; 0 where it has none.
        sizes: what it says of the sequence's size; 0 where that is nothing.
    """

    rows: Numbers
    names: pa.Array
    codes: npt.NDArray[np.integer]
    numbers: Numbers
    sizes: Numbers

    def among(self, chosen: Numbers) -> "Members":
        """Of a part of the batch (ascending places); the rows are places in that part."""
        at, inside = places_among(self.rows, chosen)
        return Members(at, self.names, self.codes[inside], self.numbers[inside], self.sizes[inside])

    def after(self, known: Sizes, stored: Flags) -> Sizes:
        """What is known once those of the batch that are ``stored`` are in the store."""
        kept = stored[self.rows]
        sizes, lasts = known.sizes.copy(), known.lasts.copy()
        np.maximum.at(sizes, self.codes[kept], self.sizes[kept])
        np.maximum.at(lasts, self.codes[kept], self.numbers[kept])
        return Sizes(sizes, lasts)

    def all_agree(self, known: Sizes, stored: Flags) -> bool:
        """Whether nothing is refused, where ``stored`` was told as if nothing could be.

        By induction over the order of arrival: the first one that is refused would disagree here too.
        """
        after = self.after(known, stored)
        kept = stored[self.rows]
        told, sizes = self.sizes[kept], after.sizes[self.codes[kept]]
        same = (told == 0) | (told == sizes)
        unchanged = (known.sizes == 0) | (known.sizes == after.sizes)
        inside = (after.sizes == 0) | (after.lasts <= after.sizes)
        return bool(same.all() and unchanged.all() and inside.all())


def contradiction(name: str, number: int, told: int, size: int, last: int) -> str | None:
    """Why a member can't be one of a sequence of which ``size`` and ``last`` (0: nothing) are known; None if it can."""
    if told and size and told != size:
        return f"the size of sequence {name} is {told} by this record and {size} by an earlier one"
    if told and told < last:
        return f"the size of sequence {name} is {told} by this record, and an earlier one has number {last}"
    if size and number > size:
        return f"sequenceNumber {number} lies past the size of sequence {name}, {size} by an earlier record"
    return None


@dataclass(frozen=True)
class Refused:
    """The records that were refused: their places (ascending), and why."""

    rows: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    reasons: tuple[DeadLetterReason, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """Records that may be stored, in order of arrival.

    Attributes:
        high: of the hashes of their ids, the first half.
        low: the second.
        streams: the distinct streams.
        codes: which of ``streams`` each one's is.
        heads: the position each stream goes on at.
        expired: which are not stored because they have expired, unless they are duplicates.
        expected: who expects a version.
        members: who belongs to a sequence.
        known: what the store knows of the sequences.
    """

    high: Words
    low: Words
    streams: pa.Array
    codes: npt.NDArray[np.integer]
    heads: Numbers
    expired: Flags
    expected: Expected
    members: Members
    known: Sizes


def judge(candidates: Candidates, again: Flags) -> tuple[Flags, Refused]:
    """Which candidates are duplicates of earlier ones, and which are refused, one after the other.

    What is refused can come again and is no duplicate then, so that the two hang together; but only among the records
    of streams that somebody expects a version of, those of sequences, and those that share an id with one of these.

    Args:
        candidates: all of them.
        again: the duplicates, told as if nothing were refused.
    """
    expected, members = candidates.expected.rows, candidates.members.rows
    doubtful = candidates.high[np.union1d(expected, members)]
    shared = np.isin(candidates.high, doubtful)
    watched = np.isin(candidates.codes, candidates.codes[expected])
    rows = np.flatnonzero(shared | (watched & ~again & ~candidates.expired))
    again = again.copy()
    found = _Judge(candidates).one_by_one(rows, shared[rows], again)
    return again, found


class _Judge:
    """What is known as record after record is judged."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._heads = candidates.heads.tolist()
        self._sizes, self._lasts = candidates.known.sizes.tolist(), candidates.known.lasts.tolist()
        expected, members = candidates.expected, candidates.members
        self._versions = dict(zip(expected.rows.tolist(), expected.versions.tolist(), strict=True))
        told = zip(members.codes.tolist(), members.numbers.tolist(), members.sizes.tolist(), strict=True)
        self._members = dict(zip(members.rows.tolist(), told, strict=True))

    def one_by_one(self, rows: Numbers, shared: Flags, again: Flags) -> Refused:
        """Judge the rows; ``again`` becomes true for duplicates among those whose ids are ``shared``."""
        high, low = self._candidates.high[rows].tolist(), self._candidates.low[rows].tolist()
        codes, expired = self._candidates.codes[rows].tolist(), self._candidates.expired[rows].tolist()
        seen: set[tuple[int, int]] = set()
        refused: list[tuple[int, DeadLetterReason, str]] = []
        for row, message_id, stream, late, is_shared in zip(
            rows.tolist(), zip(high, low, strict=True), codes, expired, shared.tolist(), strict=True
        ):
            if is_shared:
                again[row] = message_id in seen
            if late or again[row]:
                continue
            if (why := self._refusal(row, stream)) is not None:
                refused.append((row, *why))
                continue
            self._store(row, stream)
            seen.add(message_id)
        return Refused(
            np.array([row for row, _, _ in refused], dtype=np.int64),
            tuple(reason for _, reason, _ in refused),
            tuple(detail for _, _, detail in refused),
        )

    def _refusal(self, row: int, stream: int) -> tuple[DeadLetterReason, str] | None:
        if row in self._members:
            code, number, told = self._members[row]
            name = self._candidates.members.names[code].as_py()
            words = contradiction(name, number, told, self._sizes[code], self._lasts[code])
            if words is not None:
                return DeadLetterReason.INVALID_FIELD, words
        version, actual = self._versions.get(row), self._heads[stream] - 1
        if version is None or version == actual:
            return None
        return (
            DeadLetterReason.WRONG_EXPECTED_VERSION,
            wrong_version(version, self._candidates.streams[stream].as_py(), actual),
        )

    def _store(self, row: int, stream: int) -> None:
        self._heads[stream] += 1
        if row in self._members:
            code, number, told = self._members[row]
            self._sizes[code] = self._sizes[code] or told
            self._lasts[code] = max(self._lasts[code], number)
