"""What has been read from each source: which ranges of which files, in which batch.

A batch's rows are written before it; they are in force once the messages commit carries the batch's number. A batch
that was cut off is done again with the same ranges and the same clock. What was gone by then keeps its row, as a try
before may have set records of it aside.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from messagestore_jobs.store.delta_log import committed_batch, open_table
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.schemas import FILES, literal

_GONE = -1
"""The end of a range that could not be read any more."""


@dataclass(frozen=True)
class SourceFile:
    """A file as it was listed. Two listings with the same three are the same file."""

    uri: str
    size: int
    modified_at: datetime


@dataclass(frozen=True)
class Range:
    """The records of a file that start in [start, end)."""

    file: SourceFile
    start: int
    end: int


@dataclass(frozen=True)
class Batch:
    """One batch as planned: its number, its clock, and what it reads in order of arrival."""

    number: int
    at: datetime
    ranges: tuple[Range, ...]


class ReadFiles:
    """What one source's batches have read, kept in the folder's table ``files``."""

    def __init__(self, uri: str, source_id: str) -> None:
        self._uri = uri
        self._source_id = source_id
        rows = open_table(uri, "files").to_pyarrow_table()
        self._rows: pa.Table = rows.filter(pc.field("source_id") == source_id)
        self._of_others = set(rows.filter(pc.field("source_id") != source_id)["uri"].to_pylist())
        first = pc.min(self._rows["batch"]).as_py()
        self._lost = first != 1 and committed_batch(uri, source_id) > 0
        self.last_batch: int = pc.max(self._rows["batch"]).as_py() or 0

    def planned(self, number: int) -> Batch | None:
        """A batch as it was written down, without what was gone later; None where nothing is left."""
        rows = self._rows.filter((pc.field("batch") == number) & (pc.field("end") != _GONE)).to_pylist()
        if not rows:
            return None
        ranges = tuple(
            Range(SourceFile(r["uri"], r["size"], r["modified_at"]), r["start"], r["end"])
            for r in sorted(rows, key=lambda r: (r["modified_at"], r["uri"], r["start"]))
        )
        return Batch(number, rows[0]["at"], ranges)

    def read_up_to(self) -> dict[SourceFile, int]:
        """How far each file has been read, in bytes from its start."""
        ends: dict[SourceFile, int] = {}
        columns = (self._rows[name].to_pylist() for name in ("uri", "size", "modified_at", "end"))
        for uri, size, modified_at, end in zip(*columns, strict=True):
            file = SourceFile(uri, size, modified_at)
            ends[file] = max(end, ends.get(file, _GONE))
        return ends

    def read_before(self, batch: Batch) -> set[str]:
        """The URIs of a batch that an earlier batch or try, of this source or another, may have read too.

        Where the record of what was read has been lost, that may be any.
        """
        uris = {r.file.uri for r in batch.ranges}
        if self._lost:
            return uris
        earlier = self._rows.filter(pc.field("uri").isin(pa.array(sorted(uris))))
        return set(earlier["uri"].to_pylist()) | (uris & self._of_others)

    def write_down(self, batch: Batch) -> None:
        """Plan a batch, durably."""
        rows = pa.Table.from_pylist([self._row(batch, r) for r in batch.ranges], schema=FILES)
        with external_write("plan"):
            write_deltalake(
                open_to_write(self._uri, "files"), rows, mode="append", commit_properties=commit_properties(self._uri)
            )
        self._rows = pa.concat_tables([self._rows, rows])
        self.last_batch = batch.number

    def take_out(self, batch: Batch, files: Set[SourceFile]) -> None:
        """Note of files of a planned batch that has not been committed that they are gone, durably."""
        uris = pa.array(sorted({file.uri for file in files}))
        literals = ", ".join(literal(uri) for uri in uris.to_pylist())
        own = f"source_id = {literal(self._source_id)} and batch = {batch.number}"
        with external_write("take-out"):
            open_to_write(self._uri, "files").update(
                new_values={"end": _GONE},
                predicate=f"{own} and uri in ({literals})",
                commit_properties=commit_properties(self._uri),
            )
        gone = pc.and_(pc.equal(self._rows["batch"], batch.number), pc.is_in(self._rows["uri"], uris))
        ends = pc.if_else(gone, pa.scalar(_GONE, pa.int64()), self._rows["end"])
        self._rows = self._rows.set_column(self._rows.schema.get_field_index("end"), FILES.field("end"), ends)

    def _row(self, batch: Batch, r: Range) -> dict[str, object]:
        return {
            "source_id": self._source_id,
            "batch": batch.number,
            "at": batch.at,
            "uri": r.file.uri,
            "size": r.file.size,
            "modified_at": r.file.modified_at,
            "start": r.start,
            "end": r.end,
        }


def files_in_order(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Files in order of arrival: by modification time, then by name."""
    return sorted(files, key=lambda f: (f.modified_at, f.uri))
