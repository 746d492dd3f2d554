"""A Bloom filter, which recognizes most hashes that are not in a sorted run.

A split block Bloom filter (Putze, Sanders and Singler 2007; Parquet has it too), with its blocks in order of the
hashes: look-ups in order read the mapped filter in order, and little of it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from messagestore_jobs.index.keys import Flags, Order, Words

Bits = npt.NDArray[Any]

WORD = np.dtype("<u4")
WORDS = 8
"""Words of a block; a hash sets one bit in each."""
_BITS_A_KEY = 12
"""With so many, four in a thousand absent hashes pass."""
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def blocks_for(keys: int) -> int:
    """How many blocks a filter for so many keys has."""
    return max(1, -(-keys * _BITS_A_KEY // (WORDS * WORD.itemsize * 8)))


def add(bits: Bits, high: Words, low: Words) -> None:
    """Add hashes, which are in order of ``high``."""
    if len(high):
        at = _block(high, len(bits))
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        for word, masks in enumerate(_masks(low)):
            bits[at[starts], word] |= np.bitwise_or.reduceat(masks, starts)


def may_have(bits: Bits, high: Words, low: Words) -> Flags:
    """False for hashes that were certainly not added."""
    at = _block(high, len(bits))
    passes = np.ones(len(high), dtype=np.bool_)
    for word, masks in enumerate(_masks(low)):
        passes &= (bits[at, word] & masks) != 0
    return passes


def _block(high: Words, blocks: int) -> Order:
    return ((high >> np.uint64(32)) * np.uint64(blocks) >> np.uint64(32)).astype(np.intp)


def _masks(low: Words) -> Iterator[npt.NDArray[np.uint32]]:
    """The bit of each hash in each word of its block."""
    half = low.astype(np.uint32)
    return (np.uint32(1) << (half * np.uint32(salt) >> np.uint32(27)) for salt in _SALTS)
