"""What every step of one maintenance needs."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from messagestore_core.clock import now
from messagestore_core.contract.run_document import MaintainTask, RunDocument
from messagestore_jobs.context import Run
from messagestore_jobs.progress import Progress


@dataclass(frozen=True)
class Context(Run):
    """A maintenance, by its settings."""

    task: MaintainTask

    @property
    def compact_bytes(self) -> int:
        """A file of this size is left as it is."""
        return self.task.target_file_bytes * 3 // 4


def context(document: RunDocument, spark: SparkSession, progress: Progress) -> Context:
    """The context of a maintain document.

    Raises:
        TypeError: the document is for another kind of run.
    """
    if not isinstance(document.task, MaintainTask):
        raise TypeError(f"run {document.run} is no maintenance but {document.task.kind}")
    return Context(document, spark, progress, now(document), document.task)
