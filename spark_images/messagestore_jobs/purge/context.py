"""What every step of one purge run needs."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.context import Run
from messagestore_jobs.contract.run_document import PurgeTask, RunDocument
from messagestore_jobs.progress import Progress


@dataclass(frozen=True)
class Context(Run):
    """A purge, by its rules."""

    task: PurgeTask


def context(document: RunDocument, spark: SparkSession, progress: Progress) -> Context:
    """The context of a purge document.

    Raises:
        TypeError: the document is for another kind of run.
    """
    if not isinstance(document.task, PurgeTask):
        raise TypeError(f"run {document.run} is no purge but {document.task.kind}")
    return Context(document, spark, progress, now(document), document.task)
