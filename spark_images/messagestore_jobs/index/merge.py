"""Which sorted runs are merged, and which of their entries are kept.

An id's value is when its message was inserted, in microseconds, or the bitwise not of that if the message left the
table. A stream's value is its next position, a purged id's when its message was purged; the largest counts.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from messagestore_jobs.index.entries import Entries, Lookup


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
