"""Message ids with their hashes, which are sorted once for all who look for ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Order = npt.NDArray[np.intp]


@dataclass(frozen=True)
class HashedIds:
    """Ids in order of arrival.

    Attributes:
        hashes: Spark's xxhash64 of each.
        ids: message ids; null where there is none.
        by_hash: their places, in order of the hashes.
    """

    hashes: Hashes
    ids: pa.Array
    by_hash: Order

    @staticmethod
    def of(hashes: Hashes, ids: pa.Array) -> HashedIds:
        """Sort them."""
        return HashedIds(hashes, ids, np.argsort(hashes))

    def __len__(self) -> int:
        return len(self.hashes)

    def sorted_among(self, kept: Flags) -> Order:
        """The places of those that are kept, in order of the hashes."""
        return self.by_hash[kept[self.by_hash]]

    def where(self, kept: Flags) -> HashedIds:
        """Those that are kept."""
        rows = np.flatnonzero(kept)
        places = np.cumsum(kept) - 1
        return HashedIds(self.hashes[rows], self.ids.take(pa.array(rows)), places[self.sorted_among(kept)])
