"""What every step of one purge run needs."""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.contract.run_document import PurgeTask, RunDocument
from messagestore_jobs.progress import Progress


@dataclass(frozen=True)
class Context:
    """One run over one store; ``as_of`` is the clock that every rule sees."""

    document: RunDocument
    task: PurgeTask
    spark: SparkSession
    progress: Progress
    as_of: datetime

    @property
    def uri(self) -> str:
        """The table folder."""
        return self.document.table.uri

    @property
    def run(self) -> str:
        """The run's name."""
        return self.document.run


def context(document: RunDocument, spark: SparkSession, progress: Progress) -> Context:
    """The context of a purge document.

    Raises:
        TypeError: the document is for another kind of run.
    """
    if not isinstance(document.task, PurgeTask):
        raise TypeError(f"run {document.run} is no purge but {document.task.kind}")
    return Context(document, document.task, spark, progress, now(document))
