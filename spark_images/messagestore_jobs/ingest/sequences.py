"""Members of message sequences, and whether what they say of a sequence's size agrees. No Spark, no I/O.

A sequence is numbered from 1. Its size is what the first member says that tells one, by its size or by the end flag on
the last; a member that contradicts it, or lies past it, is refused.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_jobs.ingest.expected import Numbers, places_among
from messagestore_jobs.ingest.message_ids import Flags


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
