"""What has been read from each source: which ranges of which files, in which batch.

A batch's rows are written before it; they are in force once a commit on ``messages`` has the batch's number. A batch
that broke off is repeated with the same ranges and the same clock. Files that are gone by then keep their rows, as the
earlier try may have made dead letters of their records, which the batch counts.

Where records are identified by their places, the contents that the store has read at one URI are numbered in the order
in which it first read them, whichever source did. The number, their generation, is in the source URI of records from
the second content on, so that they are told apart by their places.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake
from typing_extensions import override

from messagestore_core.store.batches import ReadBatches
from messagestore_core.store.dead_letters import uris_of_cut_dead_letters
from messagestore_core.store.delta_log import files_of
from messagestore_core.store.file_ends import NOT_READ, FileEnds
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import FILES, literal

GENERATION = "//@"
"""Between a file's URI and its generation, in a source URI. No file's URI has two slashes after those of its scheme."""
_GONE = -1
"""The end of a range whose file is gone."""
_COLUMNS = ("source_id", "batch", "uri", "size", "modified_at", "end", "cut")
_IN_LITTLE_MEMORY: dict[str, Any] = {
    "batch_size": 16_384,
    "batch_readahead": 1,
    "fragment_readahead": 1,
    "use_threads": False,
    "fragment_scan_options": ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
}
"""How a large table is read. By default whole row groups are held in memory, and more are read ahead."""
_IN_FEW_REQUESTS: dict[str, Any] = {"fragment_scan_options": ds.ParquetFragmentScanOptions(pre_buffer=True)}
_SMALL_BYTES = 8 << 20
"""A table of up to so many bytes is read by few requests, and so is each of its files."""
_COMPACT_BYTES, _COMPACT_FILES = 1 << 20, 8
"""Once there are so many files below this size, they become one: each plan adds one, and each run reads all."""
_ANEW_BYTES = 256 << 10
"""A run's first plan writes a table of up to this size anew, with its own rows.

On object storage each file costs requests of every run. What is written anew is kept until maintenance removes it: more
of it, by a run a minute, would cost as much as the requests.
"""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A listed file. The same URI, size and modification time mean the same file."""

    uri: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a file that start in [start, end).

    Attributes:
        start: the first byte.
        end: one past the last byte.
        digest: the SHA-256 of these bytes, in hex; None: not known.
        generation: of the file's content, from 1.
        compression: of the file, by its first bytes; None: nobody has looked at them.
        unpacked_from: where its records begin, in bytes of what the file unpacks to, if the file can't be cut by its
            bytes; ``start`` and ``end`` then say about which part of the file this is. None: the file is not cut.
        unpacked_to: one past where its records begin; None: it goes to the file's end.
    """

    file: SourceFile
    start: int
    end: int
    digest: str | None = None
    generation: int = 1
    compression: str | None = None
    unpacked_from: int | None = None
    unpacked_to: int | None = None

    @property
    def source_uri(self) -> str:
        """The source URI of the range's records."""
        return f"{self.file.uri}{GENERATION}{self.generation}" if self.generation > 1 else self.file.uri


class Known(NamedTuple):
    """What the store has read of a file, in ranges in the order in which they were read.

    Attributes:
        own: by this source, since it last began at the file's start.
        others: by each other source, likewise.
        reach: how far anything of a generation has been read, by generation.
    """

    own: tuple[Range, ...]
    others: tuple[tuple[Range, ...], ...]
    reach: Mapping[int, int]


@dataclass(frozen=True)
class Batch:
    """One planned batch: its number, its clock, and what it reads, in order of arrival.

    Attributes:
        number: of the batch, from 1 in each source.
        at: its clock.
        cut: the URIs of files that an earlier try marked: see ``ReadFiles.note_cut``.
        gone: the source URIs of what was planned and is gone.
        verdict_digest: a digest of all that verdicts depend on besides the records and the store; None: not known.
    """

    number: int
    at: datetime
    ranges: tuple[Range, ...]
    cut: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    verdict_digest: str | None = None


class ReadFiles(ReadBatches[Batch]):
    """What one source's batches have read, kept in the store's table ``files``.

    The table is read once, in portions; only a few bytes of each row are kept in memory.
    """

    _table = "files"

    def __init__(self, store: Store, source_id: str) -> None:
        super().__init__(store, source_id)
        self._read_whole: tuple[int, pa.Table] | None = None
        """The version and all rows of a small table."""
        self._load()

    @property
    @override
    def last_batch(self) -> int:
        return self._last_batch

    def has_begun(self) -> bool:
        """Whether a file of the source was ever planned, also if the list of files was lost since."""
        return self._last_batch > 0 or self.committed() > 0

    @override
    def planned(self, number: int) -> Batch | None:
        """A batch as it was planned, also if all of its files are gone."""
        return _planned(self._store, self._source_id, number)

    def _load(self) -> None:
        uris, batches = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        cut, whole = list[pa.RecordBatch](), list[pa.RecordBatch]()
        self._cut_unknown = False
        self._others.clear()

        table = self._store.table("files")
        version, size = table.version(), sum(files_of(table)["size_bytes"].to_pylist())
        is_whole = 0 < size <= _ANEW_BYTES

        def own() -> Iterator[pa.RecordBatch]:
            columns = FILES.names if is_whole else _COLUMNS
            for rows in scan(table, columns, **(_IN_FEW_REQUESTS if size <= _SMALL_BYTES else _IN_LITTLE_MEMORY)):
                if is_whole:
                    whole.append(rows)
                uris.append(np.unique(_hashes(rows["uri"])))
                self._see_others(rows)
                # A file that two sources read stays if either says so.
                cut.append(rows.filter(pc.field("cut")))
                of_source = rows.filter(pc.field("source_id") == self._source_id)
                self._cut_unknown |= of_source["cut"].null_count > 0
                batches.append(np.unique(of_source["batch"].to_numpy(zero_copy_only=False)))
                yield of_source.filter(pc.field("end") != _GONE)

        self.ends = FileEnds(own())
        """How far each file has been read."""
        self._read_whole = (version, pa.Table.from_batches(whole).cast(FILES)) if whole else None
        self._cut = FileEnds(rows for rows in cut if rows.num_rows)
        self._uris = np.unique(np.concatenate(uris))
        numbers = np.unique(np.concatenate(batches))
        self._lost = numbers[:1].tolist() != [1] and self.committed() > 0
        self._last_batch: int = max(numbers.tolist(), default=0)

    def read_before(self, batch: Batch) -> set[str]:
        """The source URIs of a batch that an earlier batch or try, of this source or another, may have read too.

        All of them where the store's table ``files`` was lost.
        """
        known = self._seen({r.file.uri for r in batch.ranges})
        return {r.source_uri for r in batch.ranges if self._lost or r.file.uri in known}

    def _seen(self, uris: Set[str]) -> set[str]:
        """Those of the URIs that are in the table; a collision of hashes only adds one that is looked up in vain."""
        candidates = sorted(uris)
        known = np.isin(_hashes(pa.array(candidates, pa.string())), self._uris)
        return {uri for uri, is_known in zip(candidates, known, strict=True) if is_known}

    def known(self, uris: Set[str]) -> dict[str, Known]:
        """What the store has read of those of the files that it has read before."""
        seen = self._seen(uris)
        if not seen:
            return {}
        rows = scan(self._store.table("files"), where=pc.field("uri").isin(pa.array(sorted(seen)))).read_all()
        return known_of(rows, self._source_id)

    def unpacked_end(self, r: Range) -> int:
        """Up to which byte, unpacked, a file has been read that was cut where this range begins."""
        if self.ends.of(pa.Table.from_pylist([asdict(r.file)])).tolist() != [r.start]:
            return 0
        before = (pc.field("uri") == r.file.uri) & (pc.field("end") == r.start) & (pc.field("size") == r.file.size)
        own = (pc.field("source_id") == self._source_id) & (pc.field("modified_at") == r.file.modified_at)
        rows = scan(self._store.table("files"), ["to"], before & own).read_all()
        return int(pc.max(rows["to"]).as_py() or 0)

    def planned_since(self, number: int) -> frozenset[SourceFile]:
        """The files of all batches after one."""
        own = (pc.field("source_id") == self._source_id) & (pc.field("batch") > number)
        return frozenset(source_files(scan(self._store.table("files"), where=own).read_all()))

    def set_verdict_digest(self, batch: Batch, verdict_digest: str) -> None:
        """Note in the plan of an uncommitted batch what judges it now, durably."""
        with self._held.step("plan-anew"):
            self._held.update_rows("files", {"judged_by": literal(verdict_digest)}, self._own(batch))

    def is_cut(self, files: pa.Table) -> npt.NDArray[np.bool_]:
        """Which of these files have a record that was set aside with only a part of its bytes."""
        return np.not_equal(self._cut.of(files), NOT_READ)

    def note_cut(self, batch: Batch, uris: Set[str]) -> None:
        """Mark the files of a planned, uncommitted batch of which records were cut, durably; no others of the batch.

        Args:
            uris: the source URIs of these records.
        """
        files = frozenset(r.file.uri for r in batch.ranges if r.source_uri in uris)
        if files == batch.cut:
            return
        with self._held.step("cut-noted"):
            self._mark_cut(files, self._own(batch))

    def ask_dead_letters(self) -> bool:
        """Mark files that an earlier release read and of which a dead letter may be cut, durably.

        Done once: dead letters may be purged later. Returns whether there was any file to ask for.
        """
        if not self._cut_unknown:
            return False
        uris = uris_of_cut_dead_letters(self._store)
        with self._held.step("cut-asked"):
            self._mark_cut(uris, "cut is null")
        return True

    def _mark_cut(self, uris: Set[str], predicate: str) -> None:
        literals = ", ".join(map(literal, sorted(uris)))
        self._held.update_rows("files", {"cut": f"uri in ({literals})" if uris else "false"}, predicate)
        self._load()

    def write_down(self, batch: Batch) -> None:
        """Write the plan of a batch, durably."""
        rows = self._rows_of(batch)
        (version, earlier), self._read_whole = self._read_whole or (None, None), None

        def write(table: DeltaTable) -> None:
            # With a first plan a small table is written in one file.
            anew = table.version() == version
            write_deltalake(
                table,
                pa.concat_tables([earlier, rows]) if anew else rows,
                mode="overwrite" if anew else "append",
                commit_properties=self._held.commit_properties(),
            )

        with self._held.step("plan"):
            self._held.commit("files", write)
        self._compact()
        self.ends.add(rows)
        self._uris = np.union1d(self._uris, _hashes(rows["uri"]))
        self._last_batch = batch.number

    def _compact(self) -> None:
        """Merge the table's small files once there are many; no row changes."""
        sizes = files_of(self._store.table("files"))["size_bytes"].to_numpy()
        if int((sizes < _COMPACT_BYTES).sum()) > _COMPACT_FILES:
            with self._held.step("plan-compact"):
                self._held.open_to_write("files").optimize.compact(
                    target_size=_COMPACT_BYTES, commit_properties=self._held.commit_properties()
                )

    def plan_anew(self, batch: Batch) -> None:
        """Replace the plan of an uncommitted batch, durably and in one commit."""
        with self._held.step("plan-anew"):
            self._held.write_rows("files", self._rows_of(batch), mode="overwrite", predicate=self._own(batch))
        self._load()

    def take_out(self, batch: Batch, files: Set[SourceFile]) -> None:
        """Mark files of a planned, uncommitted batch as gone, durably."""
        literals = ", ".join(literal(uri) for uri in sorted({file.uri for file in files}))
        with self._held.step("take-out"):
            self._held.update_rows("files", {"end": str(_GONE)}, f"{self._own(batch)} and uri in ({literals})")
        self._load()

    def _own(self, batch: Batch) -> str:
        return f"source_id = {literal(self._source_id)} and batch = {batch.number}"

    def _rows_of(self, batch: Batch) -> pa.Table:
        return pa.Table.from_pylist([self._row(batch, r) for r in batch.ranges], schema=FILES)

    def _row(self, batch: Batch, r: Range) -> dict[str, object]:
        return {
            "source_id": self._source_id,
            "batch": batch.number,
            "at": batch.at,
            **asdict(r.file),
            "start": r.start,
            "end": r.end,
            "cut": False,
            "judged_by": batch.verdict_digest,
            "digest": r.digest,
            "generation": r.generation,
            "compression": r.compression,
            "from": r.unpacked_from,
            "to": r.unpacked_to,
        }


def planned_batch(store: Store, source_id: str, number: int) -> Batch | None:
    """A batch as it was planned, without files that are gone; None where nothing is left."""
    batch = _planned(store, source_id, number)
    return batch if batch and batch.ranges else None


def _planned(store: Store, source_id: str, number: int) -> Batch | None:
    own = (pc.field("source_id") == source_id) & (pc.field("batch") == number)
    rows = scan(store.table("files"), where=own).read_all()
    if not rows.num_rows:
        return None
    left = rows.filter(pc.field("end") != _GONE)
    left = left.sort_by([("modified_at", "ascending"), ("uri", "ascending"), ("start", "ascending")])
    ranges = tuple(map(_range, left.to_pylist()))
    gone = frozenset(_range(row).source_uri for row in rows.filter(pc.field("end") == _GONE).to_pylist())
    at = rows["at"][0].as_py()
    if "judged_by" not in rows.column_names:
        # The command line reads stores of earlier releases too.
        return Batch(number, at, ranges, gone=gone)
    cut = frozenset(left.filter(pc.field("cut"))["uri"].to_pylist())
    return Batch(number, at, ranges, cut, gone, rows["judged_by"][0].as_py())


def _range(row: dict[str, Any]) -> Range:
    """The range of a row; the command line reads stores of earlier releases too, which lack columns."""
    return Range(
        SourceFile(row["uri"], row["size"], row["modified_at"]),
        row["start"],
        row["end"],
        row.get("digest"),
        row.get("generation") or 1,
        row.get("compression"),
        row.get("from"),
        row.get("to"),
    )


def known_of(files: pa.Table, own: str) -> dict[str, Known]:
    """What rows of the table say of each file, for a source."""
    read: dict[str, dict[str, list[Range]]] = {}
    reach: dict[str, dict[int, int]] = {}
    for row in files.sort_by([("batch", "ascending"), ("start", "ascending")]).to_pylist():
        r = _range(row)
        ends = reach.setdefault(r.file.uri, {})
        ends[r.generation] = max(r.end, ends.get(r.generation, 0))
        ranges = read.setdefault(r.file.uri, {}).setdefault(row["source_id"], [])
        if r.end != _GONE:
            ranges[:] = [r] if r.start == 0 else [*ranges, r]
    return {uri: _known(by_source, own, reach[uri]) for uri, by_source in read.items()}


def _known(read: Mapping[str, list[Range]], own: str, reach: Mapping[int, int]) -> Known:
    others = (tuple(ranges) for source, ranges in read.items() if source != own and ranges)
    return Known(tuple(read.get(own, ())), tuple(others), reach)


def source_files(files: pa.Table | pa.RecordBatch) -> list[SourceFile]:
    """The files in a listing or in rows of the table."""
    columns = (files[name].to_pylist() for name in ("uri", "size", "modified_at"))
    return [SourceFile(uri, size, modified_at) for uri, size, modified_at in zip(*columns, strict=True)]


def _hashes(uris: pa.Array) -> npt.NDArray[np.int64]:
    """Hashes that hold in this process only."""
    return np.fromiter(map(hash, uris.to_numpy(zero_copy_only=False)), np.int64, len(uris))
