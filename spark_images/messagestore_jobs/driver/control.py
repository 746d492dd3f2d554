"""What may be changed while a run lasts: whether it goes on, how fast a replay sends, and maintenance between batches.

The operator asks for it by the control key of the run's ConfigMap.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from messagestore_core.contract.run_document import MaintainTask, Upkeep
from messagestore_core.contract.run_report import (
    IngestOutcome,
    MaintainOutcome,
    Outcome,
    ReplayOutcome,
    RunError,
    UpkeepDone,
)

Steps = Generator[None, None, MaintainOutcome]
_log = logging.getLogger(__name__)
_TELL_SECONDS = 4
"""How often an ingest says how far it is: that costs a look at the tables."""


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


class RunControl:
    """Heeded by ingests and replays alike, told from any thread; keeps how far the run is, as it says itself."""

    def __init__(self, messages_per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = threading.Event()
        self._rate = messages_per_second
        self._clock = clock
        self._told_at: float | None = None
        self._maintenance: Maintenance | None = None
        self._asked: Upkeep | None = None
        self.outcome: Outcome | None = None

    def maintain_by(self, maintenance: Maintenance) -> None:
        """Know how what is asked for between batches is done."""
        self._maintenance = maintenance

    def maintain(self, asked: Upkeep) -> None:
        """Have the store maintained while the run goes on."""
        self._asked = asked

    def stop(self) -> None:
        """End the run after what is under way: a batch, or a chunk."""
        self._stop.set()

    def limit(self, messages_per_second: float | None) -> None:
        """Send no faster from here on; None is no limit."""
        self._rate = messages_per_second

    def stopped(self, wait: timedelta) -> bool:
        """Whether an ingest ends now; waits up to ``wait`` to be told."""
        return self._stop.wait(wait.total_seconds())

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        """Hear how far an ingest is, unless that was heard a moment ago."""
        now = self._clock()
        if self._told_at is None or now - self._told_at >= _TELL_SECONDS:
            self.outcome = self.with_upkeep(tell())
            self._told_at = self._clock()

    def between_batches(self) -> None:
        """Take a step of the maintenance that is asked for, unless the run is to end."""
        if self._maintenance is not None and self._asked is not None and not self._stop.is_set():
            self._maintenance.go_on(self._asked)

    def with_upkeep(self, outcome: IngestOutcome) -> IngestOutcome:
        """The same, with what came of the maintenance."""
        return outcome.model_copy(update={"upkeep": self._maintenance.done if self._maintenance else None})

    def suspended(self) -> bool:
        """Whether a replay ends now."""
        return self._stop.is_set()

    def messages_per_second(self) -> float | None:
        """A replay's rate limit of this moment."""
        return self._rate

    def reached(self, outcome: ReplayOutcome) -> None:
        """Hear how far a replay is."""
        self.outcome = outcome


@dataclass(frozen=True)
class Commands:
    """What the operator asks of a run; `paced` tells whether a rate is asked for at all: then None is no limit."""

    stop: bool = False
    paced: bool = False
    messages_per_second: float | None = None
    maintain: Upkeep | None = None


def read_commands(text: str | None) -> Commands:
    """What stands in the control key; what can't be understood asks for nothing."""
    try:
        asked = json.loads(text) if text else {}
    except ValueError:
        return Commands()
    if not isinstance(asked, dict):
        return Commands()
    stop, rate, maintain = asked.get("stop") is True, asked.get("messagesPerSecond"), _upkeep(asked.get("maintain"))
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
        return Commands(stop, paced=True, messages_per_second=float(rate), maintain=maintain)
    return Commands(stop, paced=rate is None and "messagesPerSecond" in asked, maintain=maintain)


def _upkeep(asked: object) -> Upkeep | None:
    try:
        return Upkeep.model_validate(asked)
    except ValidationError:
        return None
