"""A replay into a stream: records staged in the target's folder, taken in by its own ingest."""

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from messagestore_jobs.contract.run_document import (
    Envelope,
    FilesSource,
    IngestTask,
    RecordsSource,
    ReplayTask,
    RunDocument,
    StreamDestination,
)
from messagestore_jobs.contract.run_report import ReplayOutcome
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.progress import Silent
from messagestore_jobs.replay.delivery import Places
from messagestore_jobs.replay.redriven import Redrive, became, mark_redriven
from messagestore_jobs.replay.staging import Format
from messagestore_jobs.replay.state import ENDED, REPLAYS, Chunk, Frozen, Part, State
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.folder import open_folder
from messagestore_jobs.store.objects import join, read_document

_RECORDS = "records"
_SUFFIXES: dict[Format, str] = {"JSONLines": "jsonl", "Parquet": "parquet"}


class StreamDelivery:
    """The caller holds the right to write the target's table."""

    def __init__(self, document: RunDocument, spark: SparkSession, task: ReplayTask, target: StreamDestination) -> None:
        self._document, self._spark, self._task, self._target = document, spark, task, target
        own = join(target.table.uri, REPLAYS, task.job_id)
        self.places = Places(own)
        self.state = State(join(own, "state"))
        self.staging = "state/staging"
        self.form: Format = "Parquet" if task.origin == "DeadLetters" else "JSONLines"
        # The target is to have the bytes that this store has.
        self.line_breaks: LineBreaks = "Base64"

    def ended(self) -> ReplayOutcome | None:
        """As it was written down when all had been sent."""
        outcome = read_document(self.places, ENDED, ReplayOutcome)
        if outcome is None:
            return None
        self._forget()
        return outcome

    def check(self) -> None:
        """Make sure that the folder is the target's, before anything is written to it."""
        open_folder(self._target.table, self._document)

    def part_name(self, number: int) -> str:
        """Records arrive by modification time, then by name."""
        return f"{_RECORDS}/part-{number:08d}.{_SUFFIXES[self.form]}"

    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """Records that lie where the target reads them may not have been taken in; those that were are known to it."""
        return next(((name, 0) for name in (part.staged, part.name) if self.places.exists(name)), None)

    def deliver(self, chunk: Chunk) -> None:
        """Take the chunk's records in; what was taken in before a crash is not taken in again."""
        for part in chunk.parts:
            with external_write("replay-records"):
                self.places.move(part.staged, part.name)
        ingest_staged(self._document, self._spark, self._target, self._task, join(self.places.uri, _RECORDS))
        for part in chunk.parts:
            if self._task.origin == "DeadLetters":
                self._mark_redriven(part.name)
            with external_write("replay-records-removed"):
                self.places.delete(part.name)

    def end(self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome) -> ReplayOutcome:
        """Keep how it ended, so that the replay is not done again; forget the rest."""
        if self._task.origin == "DeadLetters":
            sent = outcome.progress.replayed
            told = became(self._spark, self._document.table.uri, self._target.table.uri, self._redrive(), sent)
            outcome = outcome.model_copy(update={"progress": outcome.progress.model_copy(update=told)})
        with external_write("replay-ended"):
            self.places.write(ENDED, outcome.model_dump_json(by_alias=True).encode())
        self._forget()
        return outcome

    def _forget(self) -> None:
        self.state.remove()
        with external_write("replay-records-removed"):
            self.places.delete_folder(_RECORDS)

    def _mark_redriven(self, part: str) -> None:
        """Note on exactly the dead letters of an object that they were sent."""
        content = self.places.read(part)
        if content is None:
            return
        sent = pq.read_table(pa.BufferReader(content))
        with external_write("replay-redriven"):
            mark_redriven(self._document.table.uri, sent, self._redrive())

    def _redrive(self) -> Redrive:
        frozen = self.state.frozen(self._task, self._document.table.uri)
        assert frozen is not None
        resource = self._document.resource
        return Redrive(frozen.at, f"{resource.namespace}/{resource.name}", source_id(self._task))


def source_id(task: ReplayTask) -> str:
    """Under which name the target remembers what it has read of a replay."""
    return f"replay:{task.job_id}"


def ingest_staged(
    document: RunDocument, spark: SparkSession, target: StreamDestination, task: ReplayTask, records: str
) -> None:
    """Take what lies under ``records`` into the target, each record once however often this is done."""
    ingest = _staged_task(target.ingest, task, records)
    run_ingest(document.model_copy(update={"table": target.table, "task": ingest}), spark, Silent())


def _staged_task(ingest: IngestTask, task: ReplayTask, records: str) -> IngestTask:
    """The target's own way to take records in, over the staged ones; messages come as Native records."""
    # Updates are for the target's own runs to read.
    staged: dict[str, object] = {"source_id": source_id(task), "lifecycle": None}
    if task.origin == "DeadLetters":
        staged["source"] = RecordsSource(
            uri=records, format=ingest.source.format, of_kafka=ingest.source.kind == "kafka"
        )
    else:
        staged["source"] = FilesSource(uri=records, format="JSONLines")
        staged["envelope"] = Envelope(format="Native", required=ingest.envelope.required)
    return ingest.model_copy(update=staged)
