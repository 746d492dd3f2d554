"""Control of a run that is under way: stop, a replay's rate limit, and maintenance between an ingest's batches.

The operator writes commands to the control key of the run's ConfigMap.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome, Upkeep, UpkeepDone
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.contract.run_document import MaintainTask
from messagestore_core.contract.run_report import MaintainOutcome, Outcome

Steps = Generator[None, None, MaintainOutcome]
_log = logging.getLogger(__name__)
_TELL_SECONDS = 4
"""How often an ingest reports its outcome, which takes a look at the tables."""


class Maintenance:
    """Maintenance within an ingest, step by step. A failure is reported, and does not stop the ingest.

    ``begin`` begins one and returns its steps.
    """

    def __init__(self, begin: Callable[[MaintainTask], Steps], error_of: Callable[[Exception], RunError]) -> None:
        self._begin, self._error_of = begin, error_of
        self._command: Upkeep | None = None
        self._steps: Steps | None = None
        self.done: UpkeepDone | None = None

    def go_on(self, command: Upkeep) -> None:
        """Take one step; a maintenance ends before another begins."""
        if self._steps is None or self._command is None:
            if self.done is not None and self.done.request_id == command.request_id:
                return
            self._command, self._steps = command, self._begin(MaintainTask(oldest_replay=command.oldest_replay))
        try:
            next(self._steps)
        except StopIteration as end:
            table, request_id = end.value.table, self._command.request_id
            self._end(UpkeepDone(request_id=request_id, table_version=table.version, small_files=table.small_files))
        except Exception as failure:
            # Also if it was fenced: the next batch will be too.
            _log.warning("maintenance failed; the ingest goes on", exc_info=True)
            self._end(UpkeepDone(request_id=self._command.request_id, error=self._error_of(failure)))

    def _end(self, done: UpkeepDone) -> None:
        self.done, self._steps = done, None


class RunControl:
    """The control of a run, set from any thread; keeps its last outcome.

    Jobs ask it whether to stop only while they have more to do.
    """

    def __init__(self, messages_per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = threading.Event()
        self._rate = messages_per_second
        self._clock = clock
        self._reported_at: float | None = None
        self._maintenance: Maintenance | None = None
        self._command: Upkeep | None = None
        self.outcome: Outcome | None = None
        self.cut_short = False
        """Whether a job that had more to do was told to stop."""

    def maintain_by(self, maintenance: Maintenance) -> None:
        """Set how maintenance is done."""
        self._maintenance = maintenance

    def maintain(self, command: Upkeep) -> None:
        """Ask for maintenance of the store while the run goes on."""
        self._command = command

    def stop(self) -> None:
        """End the run after the batch, chunk or commit under way."""
        self._stop.set()

    def limit(self, messages_per_second: float | None) -> None:
        """Set a replay's rate limit from now on; None: no limit."""
        self._rate = messages_per_second

    def stopped(self, wait: timedelta) -> bool:
        """Whether an ingest must stop now; waits up to ``wait`` for that."""
        return self._noted(self._stop.wait(wait.total_seconds()))

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Keep an ingest's outcome, unless the last one is recent."""
        now = self._clock()
        if self._reported_at is None or now - self._reported_at >= _TELL_SECONDS:
            self.outcome = self.with_upkeep(tell())
            self._reported_at = self._clock()

    def between_batches(self) -> None:
        """Take a step of the maintenance that was asked for, unless the run is to stop."""
        if self._maintenance is not None and self._command is not None and not self._stop.is_set():
            self._maintenance.go_on(self._command)

    def with_upkeep(self, outcome: IngestOutcome) -> IngestOutcome:
        """The outcome, with that of maintenance."""
        return outcome.model_copy(update={"upkeep": self._maintenance.done if self._maintenance else None})

    def suspended(self) -> bool:
        """Whether any other run must stop now."""
        return self._noted(self._stop.is_set())

    def _noted(self, stop: bool) -> bool:
        self.cut_short |= stop
        return stop

    def messages_per_second(self) -> float | None:
        """A replay's rate limit at this moment."""
        return self._rate

    def reached(self, outcome: ReplayOutcome) -> None:
        """Keep a replay's outcome."""
        self.outcome = outcome


@dataclass(frozen=True)
class Commands:
    """The operator's commands to a run; with ``paced`` it sets the rate limit, where None is no limit."""

    stop: bool = False
    paced: bool = False
    messages_per_second: float | None = None
    maintain: Upkeep | None = None


def read_commands(text: str | None) -> Commands:
    """The commands in the control key; what can't be parsed counts as none."""
    try:
        given = json.loads(text) if text else {}
    except ValueError:
        return Commands()
    if not isinstance(given, dict):
        return Commands()
    stop, rate, maintain = given.get("stop") is True, given.get("messagesPerSecond"), _upkeep(given.get("maintain"))
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
        return Commands(stop, paced=True, messages_per_second=float(rate), maintain=maintain)
    return Commands(stop, paced=rate is None and "messagesPerSecond" in given, maintain=maintain)


def _upkeep(command: object) -> Upkeep | None:
    try:
        return Upkeep.model_validate(command)
    except ValidationError:
        return None
