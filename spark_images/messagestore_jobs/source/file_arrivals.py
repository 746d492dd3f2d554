"""Files, as they arrive below a folder."""

import json
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from typing_extensions import override

from messagestore_core.clock import now, shifted
from messagestore_core.contract.ingest import IngestTask, Lag
from messagestore_core.contract.records import FilesSource, RecordsSource
from messagestore_core.store.batches import batch_id
from messagestore_core.store.dead_letters import source_positions_of, withdraw
from messagestore_core.store.ended import SeenFiles
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.files import Batch, Range, ReadFiles, SourceFile, source_files
from messagestore_core.store.objects import is_below, is_local
from messagestore_core.store.schemas import FILES
from messagestore_jobs.context import Run
from messagestore_jobs.session import extension, heap_bytes
from messagestore_jobs.source.after_ingest import AfterIngest
from messagestore_jobs.source.arrivals import REPLACED, Arrivals, Due
from messagestore_jobs.source.compression import PLAIN, SIGN_BYTES, compression_of
from messagestore_jobs.source.contents import Contents, LastLines
from messagestore_jobs.source.local_files import Chosen, Seen, list_local_files
from messagestore_jobs.source.plan import (
    BatchLimits,
    cut_by_bytes,
    exceeds,
    heap_for_files,
    is_unknown,
    limits_of_files,
    next_files,
    pending_files,
    rest_of_files,
    unpacked,
    unpacked_bytes,
)
from messagestore_jobs.source.records import (
    TOO_MANY,
    held_beside_windows,
    held_records,
    identified_by_position,
    largest_part,
    parts_between_records,
    splittable,
    verdict_digest,
)

_RECORD_BYTES = 64
"""The size assumed for a record before the first batch; few records are smaller."""


class FileArrivals(Arrivals[Batch]):
    """The ``Arrivals`` of files; sizes are in bytes."""

    def __init__(self, run: Run, task: IngestTask, source: FilesSource | RecordsSource) -> None:
        super().__init__(run, task)
        self._source = source
        self._read: ReadFiles = ReadFiles(run.store, task.source_id)
        self._after = None
        if isinstance(source, FilesSource) and source.after_ingest != "Keep":
            self._after = AfterIngest(run.store, source, run.progress)
        self._contents = None
        if identified_by_position(task):
            self._contents = Contents(self._read, source.uri, run.store.storage, whole=not splittable(source))
        self._last_lines = None
        if isinstance(source, FilesSource) and source.last_line_after is not None and splittable(source):
            self._last_lines = LastLines(source, source.last_line_after, run.store.storage)
        self._waiting: list[Range] = []
        self._open_lines: list[Range] = []
        self._taken_out: set[SourceFile] = set()
        """Of planned batches, since the files were listed; they wait again."""
        self._record_bytes = _RECORD_BYTES
        self._reported: set[str] = set()
        self._nameless: str | None = None
        self._chosen = Chosen(source)
        self._seen = Seen()

    def list_source(self) -> None:
        """List the files, and put away those that were committed whole."""
        self._nameless, self._seen, self._taken_out = None, Seen(), set()
        listed = self._seen.passing(self._chosen.of(self._listed()))
        waiting = pending_files(self._put_away(listed), self._read.ends)
        waiting = self._contents.going_on(waiting) if self._contents else waiting
        if self._last_lines:
            # Files are written by other clocks than the run's.
            waiting, self._open_lines = self._last_lines.apart(waiting, datetime.now(UTC))
            self._tell_open({r.file.uri for r in self._open_lines})
        self._waiting = waiting

    def _listed(self) -> Iterator[pa.Table]:
        uri = self._source.uri
        return list_local_files(uri, self._skip, self._refuse) if is_local(uri) else list_files(self._spark, uri)

    def _skip(self, path: str, why: str) -> None:
        """Tell once that an entry of the folder is not read."""
        if path not in self._reported:
            self._progress.say(f"{shown(path)} is skipped: {why}")
            self._reported.add(path)

    def _tell_open(self, uris: Set[str]) -> None:
        """Tell once of each file that its last line waits."""
        new = sorted(uris - self._reported)
        if new:
            more = f" ({len(new) - 1} more like it)" if new[1:] else ""
            self._progress.say(
                f"the last line of {new[0]} has no end yet and waits{more}: it is read once it has one, or once the "
                "file has not changed for source.files.lastLineTimeout"
            )
        self._reported |= uris

    def _refuse(self, path: str) -> None:
        self._nameless = path

    def _put_away(self, listed: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the listed files, after those that are committed whole have been put away."""
        if self._after is None:
            yield from listed
            return
        committed = self._read.committed()
        under_way = self._read.planned_since(committed) if self._read.last_batch > committed else frozenset()
        for files in listed:
            whole = files.filter(self._read.ends.of(files) >= files["size"].to_numpy())
            leaving = self._after.without_cut(whole, self._read, under_way)
            self._after.put_away(file for file in source_files(leaving) if file not in under_way)
            yield files

    @override
    def seen(self) -> SeenFiles | None:
        return None if self._waiting or self._taken_out or self._after else self._seen.all()

    @override
    def lines_rest_at(self) -> datetime | None:
        rest = self._source.last_line_after if isinstance(self._source, FilesSource) else None
        times = (shifted(r.file.modified_at, rest) for r in self._open_lines) if rest is not None else ()
        return min(times, default=None)

    @override
    def waits(self) -> bool:
        """Whether files wait, empty ones too."""
        return bool(self._waiting)

    @override
    def size(self) -> int:
        return sum(r.end - r.start for r in self._waiting)

    @override
    def uncommitted(self) -> Due | None:
        batch = self._read.uncommitted()
        if batch is not None and self._contents and (replaced := self._contents.replaced(batch.ranges)):
            # Records at the same places of another content are others. What is there now is listed as another file.
            self._read.take_out(batch, replaced)
            batch = self._read.uncommitted()
        if batch is None or not (batch.ranges or self._has_dead_letters(batch)):
            return None
        self._refuse_elsewhere(batch)
        return Due(batch, self._read.read_before(batch) | batch.gone, repeated=True)

    def _has_dead_letters(self, batch: Batch) -> bool:
        """Whether a batch of which all files are gone has to count dead letters; redriven ones were counted before."""
        return self._source.kind == "files" and bool(source_positions_of(self._store, self._id(batch)))

    @override
    def reset_verdicts(self, batch: Batch) -> Due | None:
        if batch.ranges:
            self.replan(batch)
        left = self._read.planned(batch.number)
        assert left is not None
        withdraw(self._store, self._id(left), lambda position: position.uri in left.gone)
        self._read.set_verdict_digest(left, verdict_digest(self._spark, self.task))
        return self.uncommitted()

    def _id(self, batch: Batch) -> str:
        return batch_id(self.task.source_id, batch.number)

    def _refuse_elsewhere(self, batch: Batch) -> None:
        """Refuse a plan with files of another source: no run wrote it, as a changed source has a new id."""
        for uri in {r.file.uri for r in batch.ranges}:
            if not is_below(self._source.uri, uri):
                raise TableRefusedError(
                    f"{self._store.uri}/files says that batch {batch.number} reads {uri[:200]}, which is not "
                    f"below {self._source.uri}; find out who wrote it"
                )

    @override
    def next(self) -> Due:
        """The first files within the stream's limits."""
        bounds = self._bounds()
        self._waiting[:1] = self._cut_first(self._waiting[0], bounds)
        ranges = next_files(self._waiting, bounds, splittable=splittable(self._source))
        ranges = self._with_digests(ranges)
        ranges = self._looked_at(ranges, largest_part(self._spark, ranges))
        by = verdict_digest(self._spark, self.task)
        batch = Batch(self._read.next_number(), now(self._document), ranges, verdict_digest=by)
        due = Due(batch, self._read.read_before(batch))
        self._read.write_down(batch)
        self._waiting = rest_of_files(self._waiting, ranges)
        return due

    def _looked_at(self, ranges: Sequence[Range], size: int) -> tuple[Range, ...]:
        """The ranges, with the compression of files of more than ``size`` bytes, which would be cut."""
        unknown = {r.file for r in ranges if is_unknown(r, size)} if splittable(self._source) else set()
        starts = first_bytes(self._spark, unknown) if unknown else {}
        compressions = {file: compression_of(start) or PLAIN for file, start in starts.items()}
        return tuple(replace(r, compression=compressions.get(r.file, r.compression)) for r in ranges)

    def _with_digests(self, ranges: Sequence[Range]) -> tuple[Range, ...]:
        return self._contents.with_digests(ranges) if self._contents else tuple(ranges)

    def _bounds(self) -> BatchLimits:
        held = held_beside_windows(self._spark, self.task, self._waiting) * self._record_bytes
        return limits_of_files(self._source, self.task.memory.batch_bytes, heap_bytes(self._spark), held)

    def _cut_first(self, r: Range, bounds: BatchLimits) -> list[Range]:
        """The first file that waits, in parts if a batch can't hold it and it can't be cut by its bytes."""
        by_bytes = splittable(self._source) and r.compression == PLAIN
        if self._source.kind != "files" or r.unpacked_from is not None or by_bytes:
            return [r]
        if r.start:
            first = self._read.unpacked_end(r)
        elif exceeds(r, bounds):
            first, (r,) = 0, self._looked_at([r], 0)
        else:
            return [r]
        if first == 0 and cut_by_bytes(r, splittable=splittable(self._source)):
            return [r]
        with suppress(Py4JJavaError):
            return self._between_records(r, first, bounds)
        # The batch will tell why it can't be read.
        return [replace(r, unpacked_from=first) if first else r]

    def _between_records(self, r: Range, first: int, bounds: BatchLimits) -> list[Range]:
        assert isinstance(self._source, FilesSource)
        records = held_records(self._spark, self.task, [r])
        most = min(heap_for_files(heap_bytes(self._spark)), unpacked_bytes(r, bounds.bytes))
        parts = parts_between_records(self._spark, r, first, self._source, records, most)
        if len(parts) > 1:
            self._progress.say(f"{r.file.uri} has more than one batch holds, and is read in {len(parts)}")
        return parts

    @override
    def note_cut(self, batch: Batch, uris: set[str]) -> None:
        self._read.note_cut(batch, uris)

    def taken_in(self, batch: Batch, records: int) -> None:
        """Estimate the size of a record for the next batch."""
        if batch.ranges:
            self._record_bytes = max(1, sum(unpacked(r) for r in batch.ranges) // max(1, records))

    def replan(self, batch: Batch, error: Exception | None = None) -> bool:
        """Take files that are gone or can't be read out of a planned batch; one that comes back is a new file.

        Of a file that has more records than a batch holds, leave as many as it holds; it ends the batch.

        Raises:
            RunFailedError: no file can be read, and the credentials are refused for some.
        """
        files = frozenset(r.file for r in batch.ranges)
        reasons = unreadable(self._spark, {file.uri for file in files})
        gone = frozenset(file for file in files if file.uri in reasons)
        if gone:
            self._read.take_out(batch, gone)
            self._taken_out |= gone
        for uri, (reason, _) in sorted(reasons.items()):
            self._progress.say(f"{uri} can't be read and is skipped: {reason}")
        denied = sorted(uri for uri, (_, is_denied) in reasons.items() if is_denied)
        if gone == files and denied:
            raise RunFailedError(
                "StorageDenied",
                f"the credentials may list files of the source and not read them: {len(denied)} of {len(files)} that "
                f"are due, the first of them {denied[0][:500]}; allow s3:GetObject, or move them away",
            )
        return bool(gone) or (error is not None and TOO_MANY in str(error) and self._cut(batch))

    def _cut(self, batch: Batch) -> bool:
        """Let a batch end before the first of its files that has too many records, or with the start of that file."""
        bounds = self._bounds()
        for n, r in enumerate(self._looked_at(batch.ranges, 0)):
            at_once = r.unpacked_from is None and not cut_by_bytes(r, splittable=splittable(self._source))
            parts = self._between_records(r, 0, bounds) if at_once else [r]
            if len(parts) > 1:
                taken = batch.ranges[:n] or self._with_digests(parts[:1])
                withdraw(self._store, self._id(batch))
                self._read.plan_anew(replace(batch, ranges=taken))
                self._waiting[:0] = [*(parts if n else parts[1:]), *batch.ranges[n + 1 :]]
                return True
        return False

    @override
    def explained(self, error: Exception) -> RunFailedError | None:
        """Explain that a file was replaced between the two passes."""
        if REPLACED not in str(error):
            return None
        return RunFailedError("SourceChanged", f"{_sentence(error)}; the next run reads it anew")

    @override
    def left_out(self) -> RunFailedError | None:
        """Tell of local files whose names are not UTF-8."""
        if self._nameless is None:
            return None
        return RunFailedError(
            "SourceUnreadable",
            f"{shown(self._nameless)} has a name that is not UTF-8, so that no run can read it; all others were read. "
            "Rename it",
        )

    @override
    def arrived_at(self, batch: Batch) -> datetime | None:
        return min((r.file.modified_at for r in batch.ranges), default=None)

    @override
    def lag(self) -> Lag:
        """Counted in files."""
        left = {r.file for r in (*self._waiting, *self._open_lines)} | self._taken_out
        oldest = min((file.modified_at for file in left), default=None)
        skipped = self._chosen.skipped
        return Lag(
            as_of=now(self._document),
            files=len(left),
            oldest_pending_time=oldest,
            source_found=bool(left) or bool(skipped) or self._read.has_begun(),
            skipped_files=skipped,
        )


def shown(path: str) -> str:
    """A path for people, with escapes for bytes that are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _sentence(error: Exception) -> str:
    """The part of Spark's error about a file that was replaced.

    It names the first file whose records moved; the replaced file may be one before it.
    """
    line = next(line for line in str(error).splitlines() if REPLACED in line)
    return line[line.index(REPLACED) :].partition(" SQLSTATE")[0]


def list_files(spark: SparkSession, uri: str) -> Iterator[pa.Table]:
    """All files below a folder on object storage, in portions without order, without names that start with "." or "_".

    Columns ``uri``, ``size`` and ``modified_at``.
    """
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    with tempfile.NamedTemporaryFile(prefix="messagestore-") as listing:
        extension(spark).FileListing.list(conf, uri, listing.name)
        while count := int.from_bytes(listing.read(4), "little"):
            yield _portion(listing, count)


def _portion(listing: IO[bytes], count: int) -> pa.Table:
    """Read one portion of a listing, in the format of ``FileListing``."""
    sizes, times = (pa.array(np.frombuffer(listing.read(8 * count), "<i8")) for _ in range(2))
    offsets = listing.read(4 * (count + 1))
    uris = pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(listing.read(int.from_bytes(offsets[-4:], "little")))
    )
    modified_at = pc.multiply(times, 1000).cast(FILES.field("modified_at").type)
    return pa.table({"uri": uris, "size": sizes, "modified_at": modified_at})


def first_bytes(spark: SparkSession, files: Set[SourceFile]) -> dict[SourceFile, bytes]:
    """The first bytes of files, by one request for each; those that can't be read are left out."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    listed = list(files)
    sizes = json.dumps([[file.uri, min(file.size, SIGN_BYTES)] for file in listed])
    starts = json.loads(extension(spark).FileListing.starts(conf, sizes))
    return {file: b64decode(start) for file, start in zip(listed, starts, strict=True) if start is not None}


def unreadable(spark: SparkSession, uris: set[str]) -> dict[str, tuple[str, bool]]:
    """The files that can't be read: the reason of each, and whether the credentials are refused."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    answer = json.loads(extension(spark).FileListing.unreadable(conf, json.dumps(sorted(uris))))
    return {uri: (reason, is_denied) for uri, reason, is_denied in answer}
