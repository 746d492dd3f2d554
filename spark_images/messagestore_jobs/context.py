"""What every step of one run needs."""

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.delta_log import CommitNote, last_note
from messagestore_core.store.fence import with_epoch
from messagestore_jobs.progress import Progress


@dataclass(frozen=True)
class Run:
    """One run over one store; ``as_of`` is the clock that every time rule sees."""

    document: RunDocument
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

    def note(self) -> CommitNote:
        """What a commit on ``messages`` says that is no batch's: totals go on as they were."""
        return with_epoch(self.uri, last_note(self.uri).model_copy(update={"run": self.run}))
