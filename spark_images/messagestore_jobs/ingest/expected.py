"""Records that say which version their stream must have: judged in order of arrival. No Spark, no I/O.

A stream's version is the position of its last message, -1 before the first. A record whose expectation doesn't hold is
refused: it takes no position, and its id is not in the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_jobs.ingest.keys import Flags, Hashes

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
        at = np.searchsorted(chosen, self.rows)
        inside = at < len(chosen)
        inside[inside] = chosen[at[inside]] == self.rows[inside]
        return Expected(at[inside], self.versions[inside])


@dataclass(frozen=True)
class Refused:
    """The records that were refused; ``actual`` is the version that the stream had, or was to have, by then."""

    rows: Numbers
    expected: Numbers
    actual: Numbers

    def details(self, streams: pa.Array) -> list[str]:
        """Why each was refused, as message-db words it; ``streams`` are those of the whole batch."""
        names = streams.take(pa.array(self.rows)).to_pylist()
        told = zip(self.expected.tolist(), names, self.actual.tolist(), strict=True)
        return [f"Wrong expected version: {v} (Stream: {s}, Stream Version: {a})" for v, s, a in told]


def nobody() -> Refused:
    """No record was refused."""
    none = np.empty(0, dtype=np.int64)
    return Refused(none, none, none)


@dataclass(frozen=True)
class Candidates:
    """Records that may be stored, in order of arrival.

    Attributes:
        hashes: of the ids.
        ids: message ids.
        codes: which of ``heads`` each one's stream is.
        heads: the position each stream goes on at.
        expired: which are not stored because they have expired, unless they are duplicates.
        expected: of these.
    """

    hashes: Hashes
    ids: pa.Array
    codes: npt.NDArray[np.integer]
    heads: Numbers
    expired: Flags
    expected: Expected


def all_hold(expected: Expected, stored: Flags, positions: Numbers) -> bool:
    """Whether nothing is refused, where ``stored`` and ``positions`` were told as if there were no expectations.

    By induction over the order of arrival: the first one that is refused would not hold here either.
    """
    asked = stored[expected.rows]
    return bool((positions[expected.rows[asked]] == expected.versions[asked] + 1).all())


def judge(candidates: Candidates, again: Flags) -> tuple[Flags, Refused]:
    """Which candidates are duplicates of earlier ones, and which are refused, one after the other.

    What is refused can come again and is no duplicate then, so that the two hang together; but only among the records
    of streams that somebody expects a version of, and those that share an id with one that does.

    Args:
        candidates: all of them.
        again: the duplicates, told as if there were no expectations.
    """
    expected = candidates.expected
    shared = np.isin(candidates.hashes, candidates.hashes[expected.rows])
    watched = np.isin(candidates.codes, candidates.codes[expected.rows])
    rows = np.flatnonzero(shared | (watched & ~again & ~candidates.expired))
    versions: list[int | None] = [None] * len(rows)
    for place, version in zip(np.searchsorted(rows, expected.rows).tolist(), expected.versions.tolist(), strict=True):
        versions[place] = version
    return _one_by_one(candidates, again, rows, shared, versions)


def _one_by_one(
    candidates: Candidates, again: Flags, rows: Numbers, shared: Flags, versions: Sequence[int | None]
) -> tuple[Flags, Refused]:
    again, heads, seen = again.copy(), candidates.heads.tolist(), set[str]()
    refused: list[tuple[int, int, int]] = []
    told = zip(
        rows.tolist(),
        candidates.codes[rows].tolist(),
        candidates.ids.take(pa.array(rows)).to_pylist(),
        candidates.expired[rows].tolist(),
        shared[rows].tolist(),
        versions,
        strict=True,
    )
    for row, stream, message_id, expired, is_shared, version in told:
        if is_shared:
            again[row] = message_id in seen
        if expired or again[row]:
            continue
        if version is not None and version != heads[stream] - 1:
            refused.append((row, version, heads[stream] - 1))
            continue
        heads[stream] += 1
        seen.add(message_id)
    return again, Refused(*(np.array(values, dtype=np.int64) for values in zip(*refused, strict=True)))
