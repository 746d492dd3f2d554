"""Which message ids are in the store, told exactly: a 64-bit hash finds candidates, the id itself decides.

Hashes are Spark's xxhash64 of the id. Ids lie in files on local disk, mapped into memory; what a driver holds for
itself is eight bytes a key.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MERGE_RATIO = 4
KEYS = pa.schema([pa.field("message_id", pa.large_string()), pa.field("inserted_at", pa.int64())])
"""``inserted_at`` in microseconds since 1970."""


@dataclass(frozen=True)
class _Run:
    """Keys sorted by hash; ``keys`` (schema KEYS) is in the same order."""

    hashes: Hashes
    keys: pa.Table


class KeyIndex:
    """The keys of a store, in sorted runs that are merged as they grow, so that a lookup visits few of them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="messagestore-keys-")
        self._runs: list[_Run] = []
        self._files = 0

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self._runs)

    def add(self, hashes: Hashes, ids: pa.Array, inserted_at: npt.NDArray[np.int64]) -> None:
        """Take keys in."""
        keys = pa.table([ids.cast(pa.large_string()), pa.array(inserted_at)], schema=KEYS)
        self._runs.append(self._sorted(hashes, keys))
        while len(self._runs) > 1 and len(self._runs[-2].hashes) < _MERGE_RATIO * len(self._runs[-1].hashes):
            last, before = self._runs.pop(), self._runs.pop()
            joined = pa.concat_tables([before.keys, last.keys])
            self._runs.append(self._sorted(np.concatenate([before.hashes, last.hashes]), joined))

    def contains(self, hashes: Hashes, ids: pa.Array, not_before: int | None) -> Flags:
        """Which of the ids are in the store; with ``not_before`` (microseconds): among rows inserted since."""
        found = np.zeros(len(hashes), dtype=np.bool_)
        order = np.argsort(hashes)  # Neighbours are then looked for among neighbours, which caches reward.
        for run in self._runs:
            self._search(run, order, hashes, ids, not_before, found)
        return found

    @staticmethod
    def _search(
        run: _Run, asked: npt.NDArray[np.intp], hashes: Hashes, ids: pa.Array, not_before: int | None, found: Flags
    ) -> None:
        at = np.searchsorted(run.hashes, hashes[asked])
        while True:
            # Other ids with the same hash, and the same id inserted at other times, lie side by side: look on.
            inside = at < len(run.hashes)
            asked, at = asked[inside], at[inside]
            same = run.hashes[at] == hashes[asked]
            asked, at = asked[same], at[same]
            if not len(asked):
                return
            keys = run.keys.take(pa.array(at))
            hit = pc.equal(keys["message_id"].combine_chunks(), ids.take(pa.array(asked)).cast(pa.large_string()))
            hits = hit.to_numpy(zero_copy_only=False)
            if not_before is not None:
                hits &= keys["inserted_at"].to_numpy() >= not_before
            found[asked[hits]] = True
            asked, at = asked[~hits], at[~hits] + 1

    def _sorted(self, hashes: Hashes, keys: pa.Table) -> _Run:
        order = np.argsort(hashes, kind="stable")
        return _Run(hashes[order], self._on_disk(keys.take(pa.array(order))))

    def _on_disk(self, keys: pa.Table) -> pa.Table:
        path = Path(self._folder.name) / f"{self._files}.arrow"
        self._files += 1
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, KEYS) as writer:
            writer.write_table(keys.combine_chunks())
        mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        path.unlink()  # The mapping keeps the bytes until the run is merged away.
        return mapped
