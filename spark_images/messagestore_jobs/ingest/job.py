"""The ingest run: batch after batch, until all that has arrived is in the store."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.contract.run_document import IngestTask, RunDocument
from messagestore_jobs.contract.run_report import IngestCounts, IngestOutcome, Lag
from messagestore_jobs.ingest.batch import BatchContext, ingest_batch
from messagestore_jobs.ingest.erased import open_erased
from messagestore_jobs.ingest.known import open_known
from messagestore_jobs.ingest.listing import list_files, unreadable
from messagestore_jobs.ingest.plan import limits, next_batch, pending
from messagestore_jobs.ingest.records import splittable
from messagestore_jobs.progress import Progress
from messagestore_jobs.store.files import Batch, Range, ReadFiles, SourceFile
from messagestore_jobs.store.history import committed_batch, last_note, table_state


def run_ingest(document: RunDocument, spark: SparkSession, progress: Progress) -> IngestOutcome:
    """Take in what has arrived when the run starts. The caller holds the right to write, and the folder is open."""
    task = document.task
    assert isinstance(task, IngestTask)
    read = ReadFiles(document.table.uri, task.source_id)
    waiting = _waiting(spark, task, read)
    cut_off = _cut_off(document, task, read)
    progress.step("ingest", _size(waiting) + (_size(cut_off.ranges) if cut_off else 0))
    note = first = last_note(document.table.uri)
    batches = 0
    if cut_off or waiting:
        context = _context(document, spark, task)
        while batch := cut_off or _plan(document, task, read, waiting):
            before = read.read_before(batch)
            if batch is not cut_off:
                read.write_down(batch)
            try:
                note = ingest_batch(context, batch, before, note)
            except (PySparkException, Py4JJavaError):
                gone = _pass_over(spark, read, batch, progress)
                if not gone:
                    raise
                cut_off = _cut_off(document, task, read)
            else:
                gone, cut_off = frozenset(), None
                batches += 1
                progress.advance(_size(batch.ranges))
            waiting = pending([r.file for r in waiting if r.file not in gone], read.read_up_to())
    return IngestOutcome(
        counts=_difference(note.totals, first.totals),
        totals=note.totals,
        batches=batches,
        table=table_state(document.table.uri),
        lag=_lag(document, _waiting(spark, task, read)),
    )


def _waiting(spark: SparkSession, task: IngestTask, read: ReadFiles) -> list[Range]:
    return pending(list_files(spark, task.source.uri), read.read_up_to())


def _context(document: RunDocument, spark: SparkSession, task: IngestTask) -> BatchContext:
    uri = document.table.uri
    known = open_known(spark, uri, table_state(uri).messages, task.memory.index_bytes)
    return BatchContext(spark, document.run, uri, task, known, open_erased(uri))


def _cut_off(document: RunDocument, task: IngestTask, read: ReadFiles) -> Batch | None:
    """A batch that was written down and never committed: it is done again, the same."""
    if read.last_batch <= committed_batch(document.table.uri, task.source_id):
        return None
    return read.planned(read.last_batch)


def _plan(document: RunDocument, task: IngestTask, read: ReadFiles, waiting: list[Range]) -> Batch | None:
    bounds = limits(task.source, task.memory.batch_bytes)
    ranges = next_batch(waiting, bounds, splittable=splittable(task.source))
    if not ranges:
        return None
    # Numbers go on after a lost record of what was read: Delta passes over those that it has seen.
    number = max(read.last_batch, committed_batch(document.table.uri, task.source_id)) + 1
    return Batch(number, now(document), ranges)


def _pass_over(spark: SparkSession, read: ReadFiles, batch: Batch, progress: Progress) -> frozenset[SourceFile]:
    """Take out of a planned batch what is there no more or may not be read; should it come back, it is new."""
    reasons = unreadable(spark, {r.file.uri for r in batch.ranges})
    gone = frozenset(r.file for r in batch.ranges if r.file.uri in reasons)
    if gone:
        read.take_out(batch, gone)
    for uri, reason in sorted(reasons.items()):
        progress.say(f"{uri} can't be read and is passed over: {reason}")
    return gone


def _size(ranges: "list[Range] | tuple[Range, ...]") -> int:
    return sum(r.end - r.start for r in ranges)


def _difference(after: IngestCounts, before: IngestCounts) -> IngestCounts:
    later, earlier = after.model_dump(), before.model_dump()
    return IngestCounts(**{name: later[name] - earlier[name] for name in later})


def _lag(document: RunDocument, waiting: list[Range]) -> Lag:
    oldest = min((r.file.modified_at for r in waiting), default=None)
    return Lag(as_of=now(document), files=len({r.file for r in waiting}), oldest_pending_time=oldest)
