"""The ingest run: batch after batch, until all that has arrived is in the store."""

from datetime import timedelta
from functools import cached_property, partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.contract.run_document import IngestTask, RunDocument
from messagestore_jobs.contract.run_report import IngestCounts, IngestOutcome, Lag
from messagestore_jobs.ingest.batch import BatchContext, ingest_batch
from messagestore_jobs.ingest.columns import columns_of
from messagestore_jobs.ingest.control import Control, Unattended
from messagestore_jobs.ingest.erased import open_erased
from messagestore_jobs.ingest.known import open_known
from messagestore_jobs.ingest.listing import list_files, unreadable
from messagestore_jobs.ingest.plan import limits, next_batch, pending, rest
from messagestore_jobs.ingest.records import splittable
from messagestore_jobs.ingest.write import REPLACED
from messagestore_jobs.progress import Progress
from messagestore_jobs.store.errors import RunFailedError
from messagestore_jobs.store.files import Batch, Range, ReadFiles
from messagestore_jobs.store.history import committed_batch, last_note, table_state


def run_ingest(
    document: RunDocument, spark: SparkSession, progress: Progress, control: Control | None = None
) -> IngestOutcome:
    """Take in what has arrived; with a batch interval, look for more until told to stop.

    The caller holds the right to write, and the folder is open. A stop is heeded between batches.
    """
    task = document.task
    assert isinstance(task, IngestTask)
    asked = control or Unattended()
    ingest = _Ingest(document, task, spark, progress, asked)
    ingest.take_in_what_has_arrived()
    while task.batch_interval is not None and not asked.stopped(task.batch_interval):
        ingest.take_in_what_has_arrived()
    return ingest.outcome()


class _Ingest:
    """One run: what it knows of the store is read once, with its first batch."""

    def __init__(
        self, document: RunDocument, task: IngestTask, spark: SparkSession, progress: Progress, control: Control
    ) -> None:
        self._document, self._task, self._spark = document, task, spark
        self._progress, self._control = progress, control
        self._uri = document.table.uri
        self._read = ReadFiles(self._uri, task.source_id)
        self._note = self._first = last_note(self._uri)
        self._batches = 0

    @cached_property
    def _context(self) -> BatchContext:
        self._progress.step("open")
        known = open_known(self._spark, self._uri, table_state(self._uri).messages, self._task.memory.index_bytes)
        columns = columns_of(self._task, self._uri)
        return BatchContext(
            self._spark, self._document.run, self._uri, self._task, known, open_erased(self._uri), columns
        )

    def take_in_what_has_arrived(self) -> None:
        """First the batch that was cut off, then the files that are listed now."""
        cut_off = self._cut_off()
        waiting = self._waiting()
        if waiting or cut_off:
            # Opened here, so that a progress tells it apart from the first batch.
            _ = self._context
        self._progress.step("ingest", _size(waiting) + (_size(cut_off.ranges) if cut_off else 0))
        if cut_off:
            self._take_in(cut_off, self._read.read_before(cut_off))
        while waiting and not self._control.stopped(timedelta(0)):
            batch = self._plan(waiting)
            before = self._read.read_before(batch)
            self._read.write_down(batch)
            self._take_in(batch, before)
            waiting = rest(waiting, batch.ranges)
            self._control.taken_in(partial(self._outcome, waiting))
        self._control.taken_in(partial(self._outcome, waiting))

    def outcome(self) -> IngestOutcome:
        """What the run did, and what the store holds after it."""
        return self._outcome(self._waiting())

    def _outcome(self, waiting: list[Range]) -> IngestOutcome:
        return IngestOutcome(
            counts=_difference(self._note.totals, self._first.totals),
            totals=self._note.totals,
            batches=self._batches,
            table=table_state(self._uri),
            lag=_lag(self._document, waiting),
        )

    def _take_in(self, batch: Batch, before: set[str]) -> None:
        """One batch, less the files that turn out to be gone."""
        try:
            self._note = ingest_batch(self._context, batch, before, self._note)
        except (PySparkException, Py4JJavaError) as error:
            if not self._pass_over_unreadable(batch):
                if REPLACED in str(error):
                    raise RunFailedError("SourceChanged", f"{_sentence(error)}; the next run reads it anew") from error
                raise
            left = self._cut_off()
            if left:
                self._take_in(left, self._read.read_before(left))
            return
        self._batches += 1
        self._progress.advance(_size(batch.ranges))

    def _waiting(self) -> list[Range]:
        return pending(list_files(self._spark, self._task.source.uri), self._read.read_up_to())

    def _cut_off(self) -> Batch | None:
        """A batch that was written down and never committed: it is done again, the same."""
        if self._read.last_batch <= committed_batch(self._uri, self._task.source_id):
            return None
        return self._read.planned(self._read.last_batch)

    def _plan(self, waiting: list[Range]) -> Batch:
        bounds = limits(self._task.source, self._task.memory.batch_bytes)
        ranges = next_batch(waiting, bounds, splittable=splittable(self._task.source))
        # Numbers go on after a lost record of what was read: Delta passes over those that it has seen.
        number = max(self._read.last_batch, committed_batch(self._uri, self._task.source_id)) + 1
        return Batch(number, now(self._document), ranges)

    def _pass_over_unreadable(self, batch: Batch) -> bool:
        """Take out of a planned batch what is there no more or may not be read; should it come back, it is new."""
        reasons = unreadable(self._spark, {r.file.uri for r in batch.ranges})
        gone = frozenset(r.file for r in batch.ranges if r.file.uri in reasons)
        if gone:
            self._read.take_out(batch, gone)
        for uri, reason in sorted(reasons.items()):
            self._progress.say(f"{uri} can't be read and is passed over: {reason}")
        return bool(gone)


def _sentence(error: Exception) -> str:
    """What was said of a file that was replaced, out of all that Spark says around it.

    The file that is named is the first whose records are not where they were; one before it may be the one.
    """
    line = next(line for line in str(error).splitlines() if REPLACED in line)
    return line[line.index(REPLACED) :].partition(" SQLSTATE")[0]


def _size(ranges: "list[Range] | tuple[Range, ...]") -> int:
    return sum(r.end - r.start for r in ranges)


def _difference(after: IngestCounts, before: IngestCounts) -> IngestCounts:
    later, earlier = after.model_dump(), before.model_dump()
    return IngestCounts(**{name: later[name] - earlier[name] for name in later})


def _lag(document: RunDocument, waiting: list[Range]) -> Lag:
    oldest = min((r.file.modified_at for r in waiting), default=None)
    return Lag(as_of=now(document), files=len({r.file for r in waiting}), oldest_pending_time=oldest)
