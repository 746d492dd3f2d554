"""How far files have been read, in 24 bytes a file."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NOT_READ = -1
"""The end of a file that has not been read; an empty file that has been read ends at 0."""

_BITS = 128
"""The width of a file's digest: so wide that equal digests mean the same file."""
Ends = npt.NDArray[np.int64]
Digests = npt.NDArray[np.bytes_]


class FileEnds:
    """How far each file has been read, by a digest of its URI, size and modification time."""

    def __init__(self, read: Iterable[pa.Table | pa.RecordBatch] = ()) -> None:
        """From tables with columns ``uri``, ``size``, ``modified_at`` and ``end``, in any order."""
        known = [(file_digests(files), _numbers(files, "end")) for files in read]
        self._digests, self._ends = _largest(
            np.concatenate([np.empty(0, f"S{_BITS // 8}"), *(digests for digests, _ in known)]),
            np.concatenate([np.empty(0, np.int64), *(ends for _, ends in known)]),
        )

    def of(self, files: pa.Table | pa.RecordBatch) -> Ends:
        """How far each of these has been read; ``NOT_READ`` where it has not been."""
        digests = file_digests(files)
        # Sorted look-ups use the CPU's caches better.
        order = np.argsort(digests)
        at, known = self._search(digests[order])
        ends = np.full(len(digests), NOT_READ, np.int64)
        ends[order[known]] = self._ends[at[known]]
        return ends

    def add(self, files: pa.Table | pa.RecordBatch) -> None:
        """Add files that were read; columns as of the constructor."""
        digests, ends = _largest(file_digests(files), _numbers(files, "end"))
        at, known = self._search(digests)
        self._ends[at[known]] = np.maximum(self._ends[at[known]], ends[known])
        self._digests = np.insert(self._digests, at[~known], digests[~known])
        self._ends = np.insert(self._ends, at[~known], ends[~known])

    def _search(self, digests: Digests) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """The index of each digest, or where it would be inserted, and whether it is known."""
        at = np.searchsorted(self._digests, digests)
        known = np.zeros(len(digests), np.bool_)
        within = at < len(self._digests)
        known[within] = self._digests[at[within]] == digests[within]
        return at, known


def _largest(digests: Digests, ends: Ends) -> tuple[Digests, Ends]:
    """Each digest once, in order, with its largest end."""
    order = np.argsort(digests)
    digests, ends = digests[order], ends[order]
    first = np.flatnonzero(np.append(True, digests[1:] != digests[:-1])[: len(digests)])
    return digests[first], np.maximum.reduceat(ends, first) if len(first) else ends


def file_digests(files: pa.Table | pa.RecordBatch) -> Digests:
    """A digest of the URI, size and modification time of each file."""
    uris = files["uri"].to_numpy(zero_copy_only=False)
    rows = zip(_numbers(files, "size").tolist(), _numbers(files, "modified_at").tolist(), uris, strict=True)
    digests: list[Any] = [
        blake2b(f"{size} {time} {uri}".encode(), digest_size=_BITS // 8).digest() for size, time, uri in rows
    ]
    return np.array(digests, f"S{_BITS // 8}")


def _numbers(files: pa.Table | pa.RecordBatch, column: str) -> Ends:
    return np.asarray(files[column].cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
