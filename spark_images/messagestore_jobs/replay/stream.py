"""A replay into a stream: records are staged in the target's folder, and the target's own ingest stores them.

Redriven dead letters are marked in their rows; at the end the replay counts what happened to them.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typing_extensions import override

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, FilesSource, RecordsSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.batches import REPLAYED
from messagestore_core.store.dead_letters import Redrive, mark_redriven
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import RECORDS
from messagestore_core.store.objects import join
from messagestore_core.store.schemas import SOURCE
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Format, Frozen
from messagestore_jobs.ingest.job import Ingest, IngestToEnd
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.chunks import StoreDelivery
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_table

_SUFFIXES: dict[Format, str] = {"JSONLines": "jsonl", "Parquet": "parquet"}


def became(spark: SparkSession, store: Store, target: Store, redrive: Redrive, sent: int) -> dict[str, int]:
    """How many dead letters of a redrive the target stored, set aside again, or neither.

    Counted from the tables, so that a redrive that broke off anywhere has the same counts.
    """
    if not sent:
        # The store may not exist.
        return {"stored": 0, "dead_lettered": 0, "duplicates": 0}
    marked = (F.col("redriven_at") == instant(redrive.at)) & (F.col("redriven_by") == redrive.by)
    dead_letters = read_table(spark, store, "dead_letters").where(marked).select(F.col("source").alias("place"))
    # Clocks may go back between two runs, by less than a day.
    since = F.lit((redrive.at - timedelta(days=1)).date())
    messages = read_table(spark, target, "messages").where(F.col("inserted_date") >= since)
    same = [F.col(f"source.{name}").eqNullSafe(F.col(f"place.{name}")) for name in SOURCE.names]
    stored = messages.select("source").join(dead_letters, same, "left_semi").count()
    own = f"{redrive.source}/"
    again = F.col("batch").startswith(own) | F.exists("earlier", lambda refusal: refusal["batch"].startswith(own))
    refused = read_table(spark, target, "dead_letters").where(again).count()
    return {"stored": stored, "dead_lettered": refused, "duplicates": max(0, sent - stored - refused)}


class StreamDelivery(StoreDelivery):
    """Sends to a stream. The caller holds the right to write the target's table.

    Objects that were moved may not be ingested yet, and the target skips records that it has read.
    """

    def __init__(self, run: Run, task: ReplayTask, target: StreamDestination) -> None:
        super().__init__(run.store_of(target.table), task, run.store.uri)
        self._run, self._target = run, target
        self._opened: Ingest | None = None
        self.form: Format = "Parquet" if task.origin == "DeadLetters" else "JSONLines"
        # So that the target gets the same bytes as this store.
        self.line_breaks: LineBreaks = "Base64"

    def check(self) -> str | None:
        """Open the target's folder, which checks its owner."""
        open_folder(self._held, self._run.document)
        return None

    @override
    def part_name(self, number: int) -> str:
        """Ingest reads by modification time, then by name, so names sort in replay order."""
        return f"{RECORDS}/part-{number:08d}.{_SUFFIXES[self.form]}"

    @override
    def deliver(self, chunk: Chunk, first: int, unchanged: Callable[[], bool]) -> bool:
        """Records that were ingested before a crash are not ingested again."""
        for part in chunk.parts:
            with self._held.step("replay-records"):
                self.objects.move(part.staged, part.name)
        if not unchanged():
            # The last one first: ingest reads by time, so those that have waited longer come first.
            for part in reversed(chunk.parts):
                with self._held.step("replay-records"):
                    self.objects.move(part.name, part.staged)
            return False
        self._ingest.ingest_arrivals()
        for part in chunk.parts:
            if self._task.origin == "DeadLetters":
                self._mark_redriven(part.name)
            with self._held.step("replay-records-removed"):
                self.objects.delete(part.name)
        return True

    def close(self) -> None:
        """End the ingest, which saves the target's index if needed."""
        if self._opened is not None:
            self._opened.outcome()

    @override
    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome:
        """End the replay, with what became of redriven dead letters."""
        if self._task.origin == "DeadLetters":
            sent = outcome.progress.replayed
            counts = became(self._run.spark, self._run.store, self._held, self._redrive, sent)
            outcome = outcome.model_copy(update={"progress": outcome.progress.model_copy(update=counts)})
        return super().end(frozen, chunks, outcome, unchanged)

    @property
    def _ingest(self) -> Ingest:
        """The target's own ingest over the staged records, opened once."""
        if self._opened is None:
            task = _staged_task(self._target.ingest, self._task, join(self.objects.uri, RECORDS))
            document = self._run.document.model_copy(update={"table": self._target.table, "task": task})
            run = replace(self._run, document=document, store=self._held, progress=Silent())
            self._opened = Ingest(run, task, IngestToEnd())
        return self._opened

    def _forget(self) -> None:
        super()._forget()
        with self._held.step("replay-records-removed"):
            self.objects.delete_folder(RECORDS)

    def _mark_redriven(self, part: str) -> None:
        """Mark the dead letters of an object as redriven."""
        content = self.objects.read(part)
        if content is None:
            return
        sent = pq.read_table(pa.BufferReader(content))
        with self._held.step("replay-redriven"):
            mark_redriven(self._run.store, sent, self._redrive)

    @cached_property
    def _redrive(self) -> Redrive:
        frozen = self.state.frozen(self._task, self._run.store.uri)
        assert frozen is not None
        resource = self._run.document.resource
        return Redrive(frozen.at, f"{resource.namespace}/{resource.name}", source_id(self._task))


def source_id(task: ReplayTask) -> str:
    """The source id under which the target notes what it has read of a replay."""
    return f"{REPLAYED}{task.job_id}"


def _staged_task(ingest: IngestTask, task: ReplayTask, records: str) -> IngestTask:
    """The target's ingest task, changed to read the staged records; messages are Native records."""
    # Only the target's own runs read updates.
    staged: dict[str, object] = {"source_id": source_id(task), "lifecycle": None, "stores_purged": True}
    if task.origin == "DeadLetters":
        source = ingest.source
        staged["source"] = RecordsSource(
            uri=records,
            format=source.format,
            of_kafka=source.kind == "kafka",
            below=source.uri if isinstance(source, FilesSource) else None,
        )
    else:
        staged["source"] = FilesSource(uri=records, format="JSONLines")
        staged["envelope"] = Envelope(format="Native", required=ingest.envelope.required)
    return ingest.model_copy(update=staged)
