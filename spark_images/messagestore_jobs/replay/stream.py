"""A replay into a stream: records staged in the target's folder, taken in by its own ingest.

What became of dead letters that were sent again is marked in their rows, and counted at the end.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.records import Envelope, FilesSource, RecordsSource
from messagestore_core.contract.run_document import IngestTask, ReplayTask, StreamDestination
from messagestore_core.contract.run_report import ReplayOutcome
from messagestore_core.store.external import external_write
from messagestore_core.store.fence import commit_properties, open_to_write
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import join, read_document
from messagestore_core.store.schemas import SOURCE, literal
from messagestore_core.store.schemas import UTC as TIMESTAMP
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import Ingest, IngestToEnd
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.progress import Silent
from messagestore_jobs.replay.chunks import Format, StagedObjects
from messagestore_jobs.replay.state import ENDED, REPLAYS, Chunk, Frozen, Part, ReplayState
from messagestore_jobs.rows.tables import read_table

_RECORDS = "records"
_SUFFIXES: dict[Format, str] = {"JSONLines": "jsonl", "Parquet": "parquet"}


class Redrive(NamedTuple):
    """When a redrive began, its resource, and the source id that the target knows it by."""

    at: datetime
    by: str
    source: str


def mark_redriven(store: Store, sent: pa.Table, redrive: Redrive) -> None:
    """Set redriven_at and redriven_by of the dead letters whose bytes and place are in ``sent``, if they are not set.

    One that failed again has been set aside anew by the replay's own batch, and stays to be sent once more.

    Args:
        store: that holds them.
        sent: columns value, uri, offset, partition and kind.
        redrive: who sends them.
    """
    marks = sent.select(["value", "uri", "offset", "partition", "kind"])
    marks = marks.append_column("at", pa.array([redrive.at] * len(marks), TIMESTAMP))
    marks = marks.append_column("by", pa.array([redrive.by] * len(marks), pa.string()))
    places = " AND ".join(
        f"(d.source['{name}'] IS NOT DISTINCT FROM s.\"{name}\")" for name in ("uri", "offset", "partition", "kind")
    )
    others = f"NOT starts_with(coalesce(d.batch, ''), {literal(f'{redrive.source}/')})"
    table: DeltaTable = open_to_write(store, "dead_letters")
    table.merge(
        marks,
        predicate=f"(d.raw IS NOT DISTINCT FROM s.value) AND {places} AND d.redriven_at IS NULL AND {others}",
        source_alias="s",
        target_alias="d",
        commit_properties=commit_properties(store),
    ).when_matched_update(updates={"redriven_at": 's."at"', "redriven_by": 's."by"'}).execute()


def became(spark: SparkSession, store: Store, target: Store, redrive: Redrive, sent: int) -> dict[str, int]:
    """How many of the dead letters that were sent the target stored, set aside again, and did neither with.

    Told from the tables, so that a redrive that was cut off anywhere counts the same.

    Args:
        spark: the session.
        store: that holds them.
        target: the store that they were sent to.
        redrive: which has sent them.
        sent: how many.
    """
    if not sent:
        # There may be no store that they could have come from.
        return {"stored": 0, "dead_lettered": 0, "duplicates": 0}
    marked = (F.col("redriven_at") == F.lit(redrive.at)) & (F.col("redriven_by") == redrive.by)
    letters = read_table(spark, store, "dead_letters").where(marked).select(F.col("source").alias("place"))
    # A clock may have gone back between two runs, by no day.
    since = F.lit((redrive.at - timedelta(days=1)).date())
    messages = read_table(spark, target, "messages").where(F.col("inserted_date") >= since)
    same = [F.col(f"source.{name}").eqNullSafe(F.col(f"place.{name}")) for name in SOURCE.names]
    stored = messages.select("source").join(letters, same, "left_semi").count()
    own = f"{redrive.source}/"
    again = F.col("batch").startswith(own) | F.exists("earlier", lambda refusal: refusal["batch"].startswith(own))
    refused = read_table(spark, target, "dead_letters").where(again).count()
    return {"stored": stored, "dead_lettered": refused, "duplicates": max(0, sent - stored - refused)}


class StreamDelivery:
    """The caller holds the right to write the target's table."""

    def __init__(self, run: Run, task: ReplayTask, target: StreamDestination) -> None:
        self._run, self._task, self._target = run, task, target
        self._to = Store.of(target.table, run.store.storage)
        self.objects = StagedObjects(self._to.path(REPLAYS, task.job_id), run.store.storage)
        self.state = ReplayState(self.objects.below("state"))
        self.staging = "state/staging"
        self.form: Format = "Parquet" if task.origin == "DeadLetters" else "JSONLines"
        # The target is to have the bytes that this store has.
        self.line_breaks: LineBreaks = "Base64"

    def ended(self) -> ReplayOutcome | None:
        """As it was written down when all had been sent."""
        outcome = read_document(self.objects, ENDED, ReplayOutcome)
        if outcome is None:
            return None
        self._forget()
        return outcome

    def check(self) -> None:
        """Make sure that the folder is the target's, before anything is written to it."""
        open_folder(self._to, self._run.document)

    def part_name(self, number: int) -> str:
        """Records arrive by modification time, then by name."""
        return f"{_RECORDS}/part-{number:08d}.{_SUFFIXES[self.form]}"

    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """Records that lie where the target reads them may not have been taken in; those that were are known to it."""
        return next(((name, 0) for name in (part.staged, part.name) if self.objects.exists(name)), None)

    def deliver(self, chunk: Chunk, first: int) -> None:
        """Take the chunk's records in; what was taken in before a crash is not taken in again."""
        for part in chunk.parts:
            with external_write("replay-records"):
                self.objects.move(part.staged, part.name)
        self._ingest.take_in_what_has_arrived()
        for part in chunk.parts:
            if self._task.origin == "DeadLetters":
                self._mark_redriven(part.name)
            with external_write("replay-records-removed"):
                self.objects.delete(part.name)

    def close(self) -> None:
        """Leave little for the target's next run to read of what was taken in."""
        if "_ingest" in self.__dict__:
            self._ingest.outcome()

    def end(self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome) -> ReplayOutcome:
        """Keep how it ended, so that the replay is not done again; forget the rest."""
        if self._task.origin == "DeadLetters":
            sent = outcome.progress.replayed
            told = became(self._run.spark, self._run.store, self._to, self._redrive, sent)
            outcome = outcome.model_copy(update={"progress": outcome.progress.model_copy(update=told)})
        with external_write("replay-ended"):
            self.objects.write(ENDED, outcome.model_dump_json(by_alias=True).encode())
        self._forget()
        return outcome

    @cached_property
    def _ingest(self) -> Ingest:
        """The target's own way to take records in, opened once; each record once however often this is done."""
        task = _staged_task(self._target.ingest, self._task, join(self.objects.uri, _RECORDS))
        document = self._run.document.model_copy(update={"table": self._target.table, "task": task})
        run = replace(self._run, document=document, store=self._to, progress=Silent())
        return Ingest(run, task, IngestToEnd())

    def _forget(self) -> None:
        self.state.remove()
        with external_write("replay-records-removed"):
            self.objects.delete_folder(_RECORDS)

    def _mark_redriven(self, part: str) -> None:
        """Note on exactly the dead letters of an object that they were sent."""
        content = self.objects.read(part)
        if content is None:
            return
        sent = pq.read_table(pa.BufferReader(content))
        with external_write("replay-redriven"):
            mark_redriven(self._run.store, sent, self._redrive)

    @cached_property
    def _redrive(self) -> Redrive:
        frozen = self.state.frozen(self._task, self._run.store.uri)
        assert frozen is not None
        resource = self._run.document.resource
        return Redrive(frozen.at, f"{resource.namespace}/{resource.name}", source_id(self._task))


def source_id(task: ReplayTask) -> str:
    """Under which name the target remembers what it has read of a replay."""
    return f"replay:{task.job_id}"


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
