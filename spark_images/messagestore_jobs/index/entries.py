"""Sorted runs: entries of an index in order of their hashes, in memory; which are merged, and what is kept of them.

An id's value is when its message was inserted, in microseconds, or the bitwise not of that if the message left the
table. A stream's value is its next position, a purged id's when its message was purged; the largest counts.
"""

from collections import Counter
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

    ``merge`` reduces entries to those that are kept; it gets all entries of a hash together.
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


def to_merge(stored: Sequence[int], new: int, ratio: int, at_most: int | None) -> int:
    """The index of the first stored run that is merged with the new entries, as all after it; len(stored): none.

    Args:
        stored: how many entries each stored run has, oldest first.
        new: how many entries are new.
        ratio: a run is merged if it is less than this times as large as all that comes after it.
        at_most: how many entries a merged run may have; None: no bound.
    """
    kept, total = len(stored), new
    if not new and stored:
        kept, total = kept - 1, stored[-1]
    while kept and stored[kept - 1] < ratio * total and (at_most is None or stored[kept - 1] + total <= at_most):
        kept -= 1
        total += stored[kept]
    return kept


def merge_ids(*, whole: bool) -> Callable[[Entries], Entries]:
    """Reduce entries of ids: additions and removals cancel out; in the ``whole`` index surplus removals are dropped."""

    def merge(entries: Entries) -> Entries:
        gone = entries["value"] < 0
        if not gone.any():
            return entries
        touched = np.isin(entries["high"], entries["high"][gone])
        left: Counter[tuple[int, int, int]] = Counter()
        for high, low, value in entries[touched].tolist():
            left[high, low, max(value, ~value)] += 1 if value >= 0 else -1
        kept = [
            (high, low, at if count > 0 else ~at)
            for (high, low, at), count in left.items()
            for _ in range(count if count > 0 or whole else -count)
        ]
        both = np.concatenate([entries[~touched], np.array(kept, dtype=entries.dtype)])
        return both[np.argsort(both["high"], kind="stable")]

    return merge


def merge_purged(since: int) -> Callable[[Entries], Entries]:
    """Reduce entries of purged ids: the last purge of each is kept, if it was not before a time in microseconds."""
    return lambda entries: keep_largest(entries[entries["value"] >= since])


def keep_largest(entries: Entries) -> Entries:
    """Keep the largest value of each stream."""
    if not len(entries):
        return entries
    ordered = entries[np.lexsort((entries["low"], entries["high"]))]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(ordered["high"]) != 0) | (np.diff(ordered["low"]) != 0)]))
    last = ordered[starts].copy()
    last["value"] = np.maximum.reduceat(ordered["value"], starts)
    return last


def less_what_left(lookup: Lookup) -> Lookup:
    """The found entries of ids whose message is still in the table."""
    if not (lookup.values < 0).any():
        return lookup
    left: Counter[tuple[int, int]] = Counter()
    for index, value in zip(lookup.indices.tolist(), lookup.values.tolist(), strict=True):
        left[index, max(value, ~value)] += 1 if value >= 0 else -1
    kept = [one for one, count in left.items() if count > 0]
    return Lookup(
        np.array([index for index, _ in kept], dtype=np.intp), np.array([at for _, at in kept], dtype=np.int64)
    )
