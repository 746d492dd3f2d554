"""What every step of a run's lifecycle work needs."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession

from messagestore_jobs.contract.run_document import Resource, Retry
from messagestore_jobs.contract.run_report import UpdateCounts
from messagestore_jobs.store.delta_log import CommitNote
from messagestore_jobs.store.tombstones import Erased, open_erased


@dataclass
class Context:
    """One run over one store; tombstones are read once, where they are asked for."""

    spark: SparkSession
    run: str
    uri: str
    retry: Retry
    resource: Resource

    @cached_property
    def erased(self) -> Erased:
        """What was erased."""
        return open_erased(self.uri)

    def noted(self, note: CommitNote, counts: UpdateCounts) -> CommitNote:
        """The note of a commit of this run, which adds to what was counted before."""
        return note.model_copy(update={"run": self.run, "updates": note.updates + counts})
