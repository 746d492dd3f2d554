"""Records that are refused because of earlier ones: for their expected version, or for their sequence.

They are judged one by one, in order of arrival. No Spark, no I/O.

A stream's version is the position of its last message, -1 before the first. A record that expects another version is
refused: it gets no position, and its id is not in the store.

A sequence is numbered from 1. Its size is that of its first member with a size or an end flag; a member that
contradicts it, or has a larger number, is refused.
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
    """The records of a batch with an expected version: their rows in the batch, ascending, and the version of each."""

    rows: Numbers
    versions: Numbers

    def among(self, chosen: Numbers) -> "Expected":
        """Of a part of the batch (ascending places); the rows are places in that part."""
        at, inside = places_among(self.rows, chosen)
        return Expected(at, self.versions[inside])

    def all_hold(self, positions: Numbers) -> bool:
        """Whether none is refused; ``positions`` (-1: not stored) were given without regard to expected versions.

        By induction over the order of arrival: the first refused one has a wrong position here too.
        """
        at_rows = positions[self.rows]
        return bool(((at_rows < 0) | (at_rows == self.versions + 1)).all())


def wrong_version(expected: int, stream: str, actual: int) -> str:
    """The message of message-db."""
    return f"Wrong expected version: {expected} (Stream: {stream}, Stream Version: {actual})"


def places_among(rows: Numbers, chosen: Numbers) -> tuple[Numbers, Flags]:
    """The indexes in ``chosen`` of those ``rows`` that are in it, and which rows are; both ascending."""
    at = np.searchsorted(chosen, rows)
    inside = at < len(chosen)
    inside[inside] = chosen[at[inside]] == rows[inside]
    return at[inside], inside


@dataclass(frozen=True)
class Sizes:
    """Sizes of sequences and their largest numbers so far; 0 where unknown."""

    sizes: Numbers
    lasts: Numbers


@dataclass(frozen=True)
class Members:
    """The records of a batch that belong to a sequence.

    Attributes:
        rows: their rows in the batch, ascending.
        names: the distinct sequences.
        codes: the index in ``names`` of each one's sequence.
        numbers: their numbers in the sequence; 0: none.
        sizes: the sequence's size by each record; 0: none.
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
        """What is known after those of the batch that are ``stored``."""
        kept = stored[self.rows]
        sizes, lasts = known.sizes.copy(), known.lasts.copy()
        np.maximum.at(sizes, self.codes[kept], self.sizes[kept])
        np.maximum.at(lasts, self.codes[kept], self.numbers[kept])
        return Sizes(sizes, lasts)

    def all_agree(self, known: Sizes, stored: Flags) -> bool:
        """Whether none is refused; ``stored`` was decided without regard to sequences.

        By induction over the order of arrival: the first refused one disagrees here too.
        """
        after = self.after(known, stored)
        kept = stored[self.rows]
        declared, sizes = self.sizes[kept], after.sizes[self.codes[kept]]
        same = (declared == 0) | (declared == sizes)
        unchanged = (known.sizes == 0) | (known.sizes == after.sizes)
        inside = (after.sizes == 0) | (after.lasts <= after.sizes)
        return bool(same.all() and unchanged.all() and inside.all())


def contradiction(name: str, number: int, declared: int, size: int, last: int) -> str | None:
    """Why a member contradicts the ``size`` and ``last`` number of its sequence (0: unknown); None if it doesn't."""
    if declared and size and declared != size:
        return f"the size of sequence {name} is {declared} by this record and {size} by an earlier one"
    if declared and declared < last:
        return f"the size of sequence {name} is {declared} by this record, and an earlier one has number {last}"
    if size and number > size:
        return f"sequenceNumber {number} lies past the size of sequence {name}, {size} by an earlier record"
    return None


@dataclass(frozen=True)
class Refused:
    """The refused records: their rows (ascending), and why."""

    rows: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    reasons: tuple[DeadLetterReason, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Streams:
    """Streams of records: distinct names, the index of each record's name, and each stream's next position."""

    names: pa.Array
    codes: npt.NDArray[np.integer]
    heads: Numbers


@dataclass(frozen=True)
class Candidates:
    """Records that may be stored, in order of arrival.

    Attributes:
        high: the first half of their ids' hashes.
        low: the second half.
        streams: their streams.
        expired: those that are not stored because they have expired, unless they are duplicates.
        expected: those with an expected version.
        members: those of sequences.
        known: sizes of the sequences in the store.
    """

    high: Words
    low: Words
    streams: Streams
    expired: Flags
    expected: Expected
    members: Members
    known: Sizes


def refuse_in_order(candidates: Candidates, again: Flags) -> tuple[Flags, Refused]:
    """Decide one by one which candidates are duplicates of earlier ones, and which are refused.

    A second copy of a refused record is no duplicate, so the two decisions depend on each other. That concerns only
    records of streams with an expected version, those of sequences, and those with the same id as one of these.
    ``again`` are the duplicates if none were refused.
    """
    expected, members = candidates.expected.rows, candidates.members.rows
    doubtful = candidates.high[np.union1d(expected, members)]
    shared = np.isin(candidates.high, doubtful)
    watched = np.isin(candidates.streams.codes, candidates.streams.codes[expected])
    rows = np.flatnonzero(shared | (watched & ~again & ~candidates.expired))
    again = again.copy()
    refused = _InOrder(candidates).one_by_one(rows, shared[rows], again)
    return again, refused


class _InOrder:
    """The state while record after record is judged."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._heads = candidates.streams.heads.tolist()
        self._sizes, self._lasts = candidates.known.sizes.tolist(), candidates.known.lasts.tolist()
        expected, members = candidates.expected, candidates.members
        self._versions = dict(zip(expected.rows.tolist(), expected.versions.tolist(), strict=True))
        by_row = zip(members.codes.tolist(), members.numbers.tolist(), members.sizes.tolist(), strict=True)
        self._members = dict(zip(members.rows.tolist(), by_row, strict=True))

    def one_by_one(self, rows: Numbers, shared: Flags, again: Flags) -> Refused:
        """Judge the rows; sets ``again`` for duplicates among those whose ids are ``shared``."""
        high, low = self._candidates.high[rows].tolist(), self._candidates.low[rows].tolist()
        codes, expired = self._candidates.streams.codes[rows].tolist(), self._candidates.expired[rows].tolist()
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
            code, number, declared = self._members[row]
            name = self._candidates.members.names[code].as_py()
            words = contradiction(name, number, declared, self._sizes[code], self._lasts[code])
            if words is not None:
                return DeadLetterReason.INVALID_FIELD, words
        version, actual = self._versions.get(row), self._heads[stream] - 1
        if version is None or version == actual:
            return None
        return (
            DeadLetterReason.WRONG_EXPECTED_VERSION,
            wrong_version(version, self._candidates.streams.names[stream].as_py(), actual),
        )

    def _store(self, row: int, stream: int) -> None:
        self._heads[stream] += 1
        if row in self._members:
            code, number, declared = self._members[row]
            self._sizes[code] = self._sizes[code] or declared
            self._lasts[code] = max(self._lasts[code], number)
