"""The context of all steps of one run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

from messagestore_core.clock import now
from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.run_document import MaintainTask, RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import ProgressListener, never
from messagestore_core.store.delta_log import CommitNote, last_note
from messagestore_core.store.errors import end_if_stopped
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.storage import Storage

_Task = TypeVar("_Task", bound=ContractModel)


@dataclass(frozen=True)
class Run:
    """One run over one store; ``as_of`` is the time that all time rules see."""

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
        end_if_stopped(self.stopped)

    def note(self) -> CommitNote:
        """The note of a commit on ``messages`` that is no batch; it repeats the totals."""
        return last_note(self.store).model_copy(update={"run": self.run})

    def with_task(self, kind: type[_Task]) -> "TaskRun[_Task]":
        """This run with its task.

        Raises:
            TypeError: the document is for another kind of run.
        """
        task = self.document.task
        if not isinstance(task, kind):
            raise TypeError(f"the task of run {self.run} is {task.kind}, not {kind.__name__}")
        return TaskRun(self.document, self.store, self.spark, self.progress, self.as_of, task, stopped=self.stopped)


@dataclass(frozen=True)
class TaskRun(Run, Generic[_Task]):
    """A run with its task."""

    task: _Task


PurgeRun = TaskRun[PurgeTask]
MaintenanceRun = TaskRun[MaintainTask]
