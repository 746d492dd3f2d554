"""The context of all steps of one run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from messagestore_core.clock import now
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.store.delta_log import CommitNote, last_note
from messagestore_core.store.errors import RunStoppedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.storage import Storage
from messagestore_jobs.progress import ProgressListener, never


@dataclass(frozen=True)
class Run:
    """One run over one store.

    Attributes:
        as_of: the time that all time rules see.
        stopped: whether the run was told to stop.
    """

    document: RunDocument
    store: HeldStore
    spark: SparkSession
    progress: ProgressListener
    as_of: datetime
    _others: dict[Table, HeldStore] = field(default_factory=dict, kw_only=True, repr=False)
    stopped: Callable[[], bool] = field(default=never, kw_only=True)

    @staticmethod
    def of(
        document: RunDocument,
        spark: SparkSession,
        progress: ProgressListener,
        storage: Storage | None = None,
        stopped: Callable[[], bool] = never,
    ) -> "Run":
        """The run of a document; without storage its store is on this machine."""
        store = HeldStore.of(document.table, storage or Storage())
        return Run(document, store, spark, progress, now(document), stopped=stopped)

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

    def between_commits(self) -> None:
        """End the run here if it was told to stop: the next run does the rest.

        Raises:
            RunStoppedError: it was.
        """
        if self.stopped():
            raise RunStoppedError

    def note(self) -> CommitNote:
        """The note of a commit on ``messages`` that is no batch; it repeats the totals."""
        return last_note(self.store).model_copy(update={"run": self.run})
