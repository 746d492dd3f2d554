"""Records that say which version their stream must have. No Spark, no I/O.

A stream's version is the position of its last message, -1 before the first. A record whose expectation doesn't hold is
refused: it takes no position, and its id is not in the store.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from messagestore_jobs.ingest.message_ids import Flags

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
