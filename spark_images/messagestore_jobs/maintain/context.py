"""The context of all steps of one maintenance."""

from dataclasses import dataclass

from messagestore_core.contract.run_document import MaintainTask
from messagestore_jobs.context import Run


@dataclass(frozen=True)
class MaintenanceRun(Run):
    """A maintenance run with its task."""

    task: MaintainTask

    @property
    def compact_bytes(self) -> int:
        """Compaction leaves files of this size and larger as they are."""
        return self.task.target_file_bytes * 3 // 4


def maintenance_run(run: Run) -> MaintenanceRun:
    """The context of a maintenance.

    Raises:
        TypeError: the document is for another kind of run.
    """
    task = run.document.task
    if not isinstance(task, MaintainTask):
        raise TypeError(f"the task of run {run.run} is {task.kind}, not maintain")
    return MaintenanceRun(run.document, run.store, run.spark, run.progress, run.as_of, task, stopped=run.stopped)
