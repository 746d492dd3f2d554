"""Keyed hashes of message ids and stream names: 128 bits, so that equal hashes mean equal names.

Without the key nobody can make two names collide, or find the name of a hash.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Order = npt.NDArray[np.intp]

HASH_BYTES = 16
_MOST_KNOWN = 200_000
"""How many names are kept with their hashes, some 150 bytes each."""


@dataclass(frozen=True)
class Keys:
    """Hashes, in some order.

    Attributes:
        high: the first half of each.
        low: the second half.
        by_high: the indexes of all, in order of ``high``.
    """

    high: Words
    low: Words
    by_high: Order

    @staticmethod
    def of(high: Words, low: Words) -> Keys:
        """Keys of these halves, sorted."""
        return Keys(high, low, np.argsort(high))

    @staticmethod
    def of_bytes(hashes: bytes) -> Keys:
        """Keys of concatenated hashes."""
        both = np.frombuffer(hashes, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        return Keys.of(both[:, 0].copy(), both[:, 1].copy())

    @staticmethod
    def of_column(hashes: pa.ChunkedArray) -> Keys:
        """Keys of a column of hashes."""
        return Keys.of(*words(hashes))

    def __len__(self) -> int:
        return len(self.high)

    def sorted_among(self, kept: Flags) -> Order:
        """The indexes of the kept ones, in order of ``high``."""
        return self.by_high[kept[self.by_high]]

    def where(self, kept: Flags) -> Keys:
        """The kept ones."""
        indices = np.cumsum(kept) - 1
        return Keys(self.high[kept], self.low[kept], indices[self.sorted_among(kept)])


def words(hashes: pa.ChunkedArray) -> tuple[Words, Words]:
    """Both halves of each hash in a column of binary values without nulls."""
    parts = [_words(chunk.cast(pa.binary(HASH_BYTES))) for chunk in hashes.chunks]
    both = np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.uint64)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


class Hasher:
    """Hashes names in this process, a million a second; it caches some."""

    def __init__(self, key: bytes) -> None:
        self._empty = hmac.new(key, digestmod="sha256")
        self._known: dict[str, bytes] = {}

    def keys(self, names: Iterable[str]) -> Keys:
        """The hashes of names."""
        return Keys.of_bytes(b"".join(map(self._hash, names)))

    def keys_of_known(self, names: Iterable[str]) -> Keys:
        """The hashes of names that are often repeated, such as streams; they are cached."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        return Keys.of_bytes(b"".join(map(self._remembered, names)))

    def _hash(self, name: str) -> bytes:
        hashing = self._empty.copy()
        hashing.update(name.encode())
        return hashing.digest()[:HASH_BYTES]

    def _remembered(self, name: str) -> bytes:
        keys = self._known.get(name)
        if keys is None:
            keys = self._known[name] = self._hash(name)
        return keys


def _words(chunk: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint64]:
    values = chunk.buffers()[1]
    words = np.frombuffer(values, dtype=">u8", count=2 * len(chunk), offset=HASH_BYTES * chunk.offset)
    return words.astype(np.uint64).reshape(-1, 2)
