"""Reports while a run lasts, and its last one: best effort, so that the work never waits for them."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from messagestore_jobs.contract.run_report import RunReport
from messagestore_jobs.driver.commands import Commands, read_commands
from messagestore_jobs.driver.configmap import CONTROL, ConfigMapGoneError

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 5.0
_log = logging.getLogger(__name__)


class Board(Protocol):
    """Where reports are pinned, and commands are found."""

    def read(self) -> dict[str, str]:
        """What is there."""

    def write_report(self, text: str) -> dict[str, str]:
        """Put a report there; returns what is there."""


class Reporting:
    """A thread that reports what has changed, and hears what is asked, every few seconds."""

    def __init__(
        self,
        board: Board,
        state: Callable[[], RunReport],
        text: Callable[[RunReport], str],
        heed: Callable[[Commands], None],
        every_seconds: float,
    ) -> None:
        self._board, self._state, self._text, self._heed = board, state, text, heed
        self._every = every_seconds
        self._ended = threading.Event()
        self._sequence = 0
        self._told: RunReport | None = None
        self._gone = False
        self._thread = threading.Thread(target=self._go_on, name="reporting", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self, last: RunReport, seconds: float) -> RunReport:
        """Report the last state, again and again for so long where it can't be; returns it with its sequence."""
        self._ended.set()
        self._thread.join(seconds)
        last = self._numbered(last)
        deadline, wait = time.monotonic() + seconds, _FIRST_WAIT
        while not self._gone and not self._deliver(last):
            if time.monotonic() + wait >= deadline:
                _log.warning("the last report could not be delivered")
                break
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        return last

    def _go_on(self) -> None:
        while not self._gone:
            self._look()
            if self._ended.wait(self._every):
                return

    def _look(self) -> None:
        report = self._state()
        if report != self._told:
            if self._deliver(self._numbered(report)):
                self._told = report
        else:
            self._hear(self._board.read)

    def _numbered(self, report: RunReport) -> RunReport:
        self._sequence += 1
        return report.model_copy(update={"sequence": self._sequence})

    def _deliver(self, report: RunReport) -> bool:
        return self._hear(lambda: self._board.write_report(self._text(report)))

    def _hear(self, ask: Callable[[], dict[str, str]]) -> bool:
        try:
            self._heed(read_commands(ask().get(CONTROL)))
        except ConfigMapGoneError as error:
            _log.warning("ConfigMap %s is gone: nobody waits for reports", error)
            self._gone = True
        except Exception as error:
            _log.warning("no report: %s", error)
            return False
        return True
