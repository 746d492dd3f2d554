"""Sorted runs: entries of an index in order of their hashes, in memory, and how several are merged."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from messagestore_jobs.index.keys import Keys, Order, Words

Entries = npt.NDArray[np.void]
Values = npt.NDArray[np.int64]
ENTRY = np.dtype([("high", "<u8"), ("low", "<u8"), ("value", "<i8")])
_SPAN = 1 << 20
"""About so many entries are merged at once."""


class Lookup(NamedTuple):
    """The entries found: for each the index of its hash among the asked, and its value."""

    indices: Order
    values: Values


class SortedRun(Protocol):
    """Entries in order of ``high``."""

    def __len__(self) -> int: ...

    def is_older(self, than: int) -> bool:
        """Whether all values of ids in it are certainly smaller than a time in microseconds."""

    def find(self, keys: Keys) -> Lookup:
        """All entries of these hashes."""

    def between(self, first: int, last: int) -> Entries:
        """The entries whose ``high`` is in [first, last]."""


def entries_of(keys: Keys, values: Values) -> Entries:
    """Entries of keys with values, in order."""
    entries = np.empty(len(keys), dtype=ENTRY)
    entries["high"], entries["low"] = keys.high[keys.by_high], keys.low[keys.by_high]
    entries["value"] = values[keys.by_high]
    return entries


class MemoryRun(SortedRun):
    """A sorted run that has not been written yet."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self._high = np.ascontiguousarray(entries["high"])

    def __len__(self) -> int:
        return len(self.entries)

    def is_older(self, than: int) -> bool:
        """False, as it is new."""
        return False

    @override
    def find(self, keys: Keys) -> Lookup:
        return matches(self.entries, self._high, keys, keys.by_high)

    @override
    def between(self, first: int, last: int) -> Entries:
        return cut(self.entries, self._high, first, last)


def merged(runs: Sequence[SortedRun], merge: Callable[[Entries], Entries]) -> Iterator[Entries]:
    """Yield the entries of several sorted runs in order, in bounded parts.

    Args:
        merge: reduces entries to those that are kept; it gets all entries of a hash together.
    """
    parts = max(1, -(-sum(map(len, runs)) // _SPAN))
    for part in range(parts):
        first, last = (part << 64) // parts, ((part + 1 << 64) // parts) - 1
        entries = np.concatenate([run.between(first, last) for run in runs])
        yield merge(entries[np.argsort(entries["high"], kind="stable")])


def together(lookups: Sequence[Lookup]) -> Lookup:
    """All that was found in several sorted runs."""
    indices = [one.indices for one in lookups] or [np.empty(0, dtype=np.intp)]
    values = [one.values for one in lookups] or [np.empty(0, dtype=np.int64)]
    return Lookup(np.concatenate(indices), np.concatenate(values))


def matches(entries: Entries, entries_high: Words, keys: Keys, order: Order) -> Lookup:
    """The entries of the asked hashes at ``order``, which are in order of ``high``."""
    high = keys.high[order]
    begin = np.searchsorted(entries_high, high, "left")
    which, at = spread(begin, np.searchsorted(entries_high, high, "right") - begin)
    candidates = entries[at]
    same = candidates["low"] == keys.low[order[which]]
    return Lookup(order[which[same]], candidates["value"][same].astype(np.int64))


def spread(begins: Order, counts: Order) -> tuple[Order, Order]:
    """The members of all ranges: for each the index of its range, and the member itself."""
    which = np.repeat(np.arange(len(begins)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[which]


def cut(entries: Entries, high: Words, first: int, last: int) -> Entries:
    """The entries whose ``high`` (of all entries) is in [first, last]."""
    begin = np.searchsorted(high, np.uint64(first), "left")
    return entries[begin : np.searchsorted(high, np.uint64(last), "right")]
