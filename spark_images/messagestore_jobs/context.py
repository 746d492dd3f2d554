"""The context of all steps of one run."""

from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from messagestore_core.clock import now
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.delta_log import CommitNote, last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.storage import Storage
from messagestore_jobs.progress import ProgressListener


@dataclass(frozen=True)
class Run:
    """One run over one store; ``as_of`` is the time that all time rules see."""

    document: RunDocument
    store: HeldStore
    spark: SparkSession
    progress: ProgressListener
    as_of: datetime
    _others: dict[Table, HeldStore] = field(default_factory=dict, kw_only=True, repr=False)

    @staticmethod
    def of(
        document: RunDocument, spark: SparkSession, progress: ProgressListener, storage: Storage | None = None
    ) -> "Run":
        """The run of a document; without storage its store is on this machine."""
        store = HeldStore.of(document.table, storage or Storage())
        return Run(document, store, spark, progress, now(document))

    def store_of(self, table: Table) -> HeldStore:
        """The store of a table that the document names; always the same one."""
        if table == self.document.table:
            return self.store
        return self._others.setdefault(table, HeldStore.of(table, self.store.storage))

    @property
    def uri(self) -> str:
        """The table folder."""
        return self.store.uri

    @property
    def run(self) -> str:
        """The run's name."""
        return self.document.run

    def note(self) -> CommitNote:
        """The note of a commit on ``messages`` that is no batch; it repeats the totals."""
        return last_note(self.store).model_copy(update={"run": self.run})
