"""Records that are refused for what came before them: judged one by one, in order of arrival. No Spark, no I/O."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_jobs.ingest.expected import Expected, Numbers, wrong_version
from messagestore_jobs.ingest.message_ids import Flags, Hashes
from messagestore_jobs.ingest.sequences import Members, Sizes, contradiction
from messagestore_jobs.reasons import DeadLetterReason


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
        hashes: of the ids.
        ids: message ids.
        streams: the distinct streams.
        codes: which of ``streams`` each one's is.
        heads: the position each stream goes on at.
        expired: which are not stored because they have expired, unless they are duplicates.
        expected: who expects a version.
        members: who belongs to a sequence.
        known: what the store knows of the sequences.
    """

    hashes: Hashes
    ids: pa.Array
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
    doubtful = candidates.hashes[np.union1d(expected, members)]
    shared = np.isin(candidates.hashes, doubtful)
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
        ids = self._candidates.ids.take(pa.array(rows)).to_pylist()
        codes, expired = self._candidates.codes[rows].tolist(), self._candidates.expired[rows].tolist()
        seen: set[str] = set()
        refused: list[tuple[int, DeadLetterReason, str]] = []
        for row, message_id, stream, late, is_shared in zip(
            rows.tolist(), ids, codes, expired, shared.tolist(), strict=True
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
