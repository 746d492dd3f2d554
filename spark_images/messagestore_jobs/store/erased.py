"""Which messages were erased: a late copy of one does not come back, and none is sent again."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messagestore_jobs.store.tombstones import message_key, read_tombstone_keys, tombstone_key


class Erased:
    """The tombstones of a store."""

    def __init__(self, key: bytes, tombstones: set[str]) -> None:
        self._key = key
        self._tombstones = tombstones

    def any(self) -> bool:
        """Whether anything was ever erased."""
        return bool(self._tombstones)

    def contains(self, ids: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Which of the ids were erased; null is none of them."""
        if not self._tombstones:
            return np.zeros(len(ids), dtype=np.bool_)
        return np.array(
            [i is not None and message_key(self._key, i) in self._tombstones for i in ids.to_pylist()], dtype=np.bool_
        )


def open_erased(uri: str) -> Erased:
    """The tombstones of the store in a folder."""
    return Erased(tombstone_key(uri) or b"", read_tombstone_keys(uri))
