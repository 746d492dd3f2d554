"""Message ids with their hashes, sorted once for all who look for ids; and which of them are in the store.

That is told exactly: a 64-bit hash finds candidates, the id itself decides.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Order = npt.NDArray[np.intp]

Places = npt.NDArray[np.int32]

_MERGE_RATIO = 2
_MOST_FILES = 16
KEYS = pa.schema([pa.field("message_id", pa.large_string()), pa.field("inserted_at", pa.int64())])
"""``inserted_at`` in microseconds since 1970."""


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


@dataclass(frozen=True)
class _Run:
    """Keys in order of arrival, in tables of schema KEYS; their hashes sorted, and the place of each among the keys."""

    hashes: Hashes
    places: Places
    files: tuple[pa.Table, ...]

    def holds(self, places: Places, ids: pa.Array, not_before: int | None) -> Flags:
        """Whether the keys at ``places`` are ``ids``, one by one."""
        hits = np.zeros(len(places), dtype=np.bool_)
        first = 0
        for keys in self.files:
            here = np.flatnonzero((places >= first) & (places < first + keys.num_rows))
            if len(here):
                found = keys.take(pa.array(places[here] - first))
                same = pc.equal(found["message_id"].combine_chunks(), ids.take(pa.array(here)))
                hits[here] = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
                if not_before is not None:
                    hits[here] &= found["inserted_at"].to_numpy() >= not_before
            first += keys.num_rows
        return hits


class KeyIndex:
    """The keys of a store, in sorted runs that are merged as they grow, so that a lookup visits few of them.

    Ids lie in files on local disk, mapped into memory; what a driver holds for itself is twelve bytes a key. Only
    hashes are sorted: ids stay in order of arrival, as moving them about costs most.

    Args:
        few: keys that have no hashes, of schema KEYS; all of them are gone through whenever ids are looked for.
    """

    def __init__(self, few: pa.Table | None = None) -> None:
        self._few = KEYS.empty_table() if few is None else few.combine_chunks()
        self._folder = tempfile.TemporaryDirectory(prefix="messagestore-keys-")
        self._runs: list[_Run] = []
        self._files = 0

    def __len__(self) -> int:
        return int(self._few.num_rows) + sum(len(run.hashes) for run in self._runs)

    def add(self, added: HashedIds, inserted_at: npt.NDArray[np.int64]) -> None:
        """Take keys in."""
        keys = pa.table([added.ids.cast(pa.large_string()), pa.array(inserted_at)], schema=KEYS)
        places = added.by_hash.astype(np.int32)
        self._runs.append(_Run(added.hashes[added.by_hash], places, (self._on_disk(keys),)))
        while len(self._runs) > 1 and len(self._runs[-2].hashes) < _MERGE_RATIO * len(self._runs[-1].hashes):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(self._merged(before, last))

    def contains(self, asked: HashedIds, not_before: int | None) -> Flags:
        """Which ids (null is none) are in the store; with ``not_before`` (microseconds): among rows inserted since."""
        found = self._among_few(asked.ids, not_before)
        for run in self._runs:
            self._search(run, asked, not_before, found)
        return found

    def _among_few(self, ids: pa.Array, not_before: int | None) -> Flags:
        few = self._few if not_before is None else self._few.filter(pc.field("inserted_at") >= not_before)
        if not few.num_rows:
            return np.zeros(len(ids), dtype=np.bool_)
        found = pc.is_in(ids, value_set=few["message_id"].combine_chunks().cast(ids.type))
        flags: Flags = found.to_numpy(zero_copy_only=False)
        return flags

    @staticmethod
    def _search(run: _Run, asked: HashedIds, not_before: int | None, found: Flags) -> None:
        # In order of hashes, neighbours are looked for among neighbours, which caches reward.
        places: Order = asked.by_hash
        at = np.searchsorted(run.hashes, asked.hashes[places])
        while True:
            # Other ids with the same hash, and the same id inserted at other times, lie side by side: look on.
            inside = at < len(run.hashes)
            places, at = places[inside], at[inside]
            same = run.hashes[at] == asked.hashes[places]
            places, at = places[same], at[same]
            if not len(places):
                return
            hits = run.holds(run.places[at], asked.ids.take(pa.array(places)).cast(pa.large_string()), not_before)
            found[places[hits]] = True
            places, at = places[~hits], at[~hits] + 1

    def _merged(self, before: _Run, last: _Run) -> _Run:
        at = np.searchsorted(before.hashes, last.hashes)
        hashes = np.insert(before.hashes, at, last.hashes)
        places = np.insert(before.places, at, last.places + np.int32(len(before.hashes)))
        files = (*before.files, *last.files)
        if len(files) > _MOST_FILES:
            files = (self._on_disk(pa.concat_tables(files)),)
        return _Run(hashes, places, files)

    def _on_disk(self, keys: pa.Table) -> pa.Table:
        path = Path(self._folder.name) / f"{self._files}.arrow"
        self._files += 1
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, KEYS) as writer:
            writer.write_table(keys.combine_chunks())
        mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        path.unlink()  # The mapping keeps the bytes until the run is merged away.
        return mapped
