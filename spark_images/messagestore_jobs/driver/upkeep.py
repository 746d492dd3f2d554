"""Maintenance within an ingest that goes on: a step between two batches, so that none waits for more than one."""

import logging
from collections.abc import Callable, Generator

from messagestore_jobs.contract.run_document import MaintainTask, Upkeep
from messagestore_jobs.contract.run_report import MaintainOutcome, RunError, UpkeepDone

Steps = Generator[None, None, MaintainOutcome]
_log = logging.getLogger(__name__)


class Maintenance:
    """What is asked for, step by step; one that fails is told, and keeps no message waiting.

    Args:
        begin: makes the steps of one maintenance.
        error_of: says why one failed.
    """

    def __init__(self, begin: Callable[[MaintainTask], Steps], error_of: Callable[[Exception], RunError]) -> None:
        self._begin, self._error_of = begin, error_of
        self._asked: Upkeep | None = None
        self._steps: Steps | None = None
        self.done: UpkeepDone | None = None

    def go_on(self, asked: Upkeep) -> None:
        """Take one step; one that has begun is finished before another is begun."""
        if self._steps is None or self._asked is None:
            if self.done is not None and self.done.asked == asked.asked:
                return
            self._asked, self._steps = asked, self._begin(MaintainTask(oldest_replay=asked.oldest_replay))
        try:
            next(self._steps)
        except StopIteration as end:
            table = end.value.table
            self._end(UpkeepDone(asked=self._asked.asked, table_version=table.version, small_files=table.small_files))
        except Exception as failure:
            # One that is fenced, too: so is its next batch.
            _log.warning("maintenance failed, and is left alone for now", exc_info=True)
            self._end(UpkeepDone(asked=self._asked.asked, error=self._error_of(failure)))

    def _end(self, done: UpkeepDone) -> None:
        self.done, self._steps = done, None
