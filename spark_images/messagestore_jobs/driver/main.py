"""The driver of one run in a pod: reads the run document, carries the run out, and reports."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport, counts_of
from messagestore_core.logs import LineFormatter, LogFormat, tell
from messagestore_core.store.errors import RUN_STOPPED
from messagestore_jobs.driver.control import Commands, RunControl
from messagestore_jobs.driver.execute import check_for_work, execute
from messagestore_jobs.driver.executors import Executors
from messagestore_jobs.driver.failures import AS_OF_ENDING_PODS
from messagestore_jobs.driver.reporting import TERMINATION_BYTES, ConfigMap, Reporting, Tracker, report_text, units_of
from messagestore_jobs.driver.secrets import scrubbed, secrets_of
from messagestore_jobs.driver.usage import of_container

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT_SECONDS = 5.0
DELIVERY_SECONDS = 60.0
"""How long delivery of the last report is tried."""
STOPPED = 143
"""The exit code of a process that SIGTERM ended, as shells have it."""
_LEFT_SECONDS = 8.0
"""The part of the grace period that is kept for the last report."""
_CUT_SHORT = "told to stop; what was under way is committed, and the next run does the rest"
_BROKE_OFF = "told to stop; what was under way broke off, and the next run does it again"
_NOT_IN_TIME = "told to stop; what was under way did not end in time, and the next run does it again"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PodSettings:
    """The settings in the pod's environment."""

    document: Path
    config_map: str | None
    termination_log: Path
    grace_seconds: float
    """The time from SIGTERM until the pod is killed."""
    log_format: LogFormat = "text"
    executors_from_bytes: int = 0
    """A run that reads fewer bytes, and does nothing else, starts no executors."""

    @staticmethod
    def of(environment: Mapping[str, str]) -> "PodSettings":
        """Read them."""
        return PodSettings(
            document=Path(environment.get("MESSAGESTORE_RUN_DOCUMENT", "/etc/messagestore/run.json")),
            config_map=environment.get("MESSAGESTORE_CONFIGMAP") or None,
            termination_log=Path(environment.get("MESSAGESTORE_TERMINATION_LOG", "/dev/termination-log")),
            grace_seconds=float(environment.get("MESSAGESTORE_GRACE_SECONDS", "30")),
            log_format="json" if environment.get("MESSAGESTORE_LOG_FORMAT") == "json" else "text",
            executors_from_bytes=int(environment.get("MESSAGESTORE_EXECUTORS_FROM_BYTES", "0")),
        )


def main() -> int:
    """Carry out the run of this pod; return its exit code, 0 only for success."""
    settings = PodSettings.of(os.environ)
    try:
        document = RunDocument.model_validate_json(settings.document.read_bytes())
    except (OSError, ValidationError) as error:
        # Without a document there is no ConfigMap to report to, only the termination message.
        words = unreadable(error)
        _write(settings.termination_log, words)
        sys.stderr.write(f"{words}\n")
        return 2
    _log_to_stderr(settings.log_format, secrets_of(document))
    return Driver(document, settings).run()


def unreadable(error: OSError | ValidationError) -> str:
    """Why a run document can't be read, in one line, as the operator shows the last line of a driver's last words.

    A field that this image doesn't know is refused: to leave it out might store, remove or send something else than
    what was asked for.
    """
    if isinstance(error, OSError):
        return f"the run document can't be read: {error}"
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    unknown = [".".join(map(str, one["loc"])) for one in problems if one["type"] == "extra_forbidden"]
    if unknown:
        return f"this image doesn't know {unknown[0]} of the run document: operator and image are of different releases"
    return f"the run document can't be read: {'.'.join(map(str, problems[0]['loc']))}: {problems[0]['msg']}"


class Driver:
    """One run of one pod."""

    def __init__(self, document: RunDocument, settings: PodSettings) -> None:
        self._document, self._settings = document, settings
        self._secrets = secrets_of(document)
        task = document.task
        self._tracker = Tracker(units_of(document))
        self._control = RunControl(task.messages_per_second if isinstance(task, ReplayTask) else None)
        self._executors = Executors(_now)
        self._started_at = datetime.now(UTC)
        self._ending, self._over = threading.Lock(), threading.Event()
        self._stopping = False
        self._reporting: Reporting | None = None
        if settings.config_map is not None:
            board, text = ConfigMap.of_environment(settings.config_map), partial(report_text, secrets=self._secrets)
            self._reporting = Reporting(board, self._state, text, self._apply_commands, REPORT_SECONDS)

    def run(self) -> int:
        """Carry the run out; return the exit code."""
        _at_sigterm(self._note_end, self._stop)
        self._tell("run started")
        if self._reporting is not None:
            self._reporting.start()
        report = self._report().model_copy(update={"started_at": self._started_at})
        report = self._stopped(report) if self._stopping else report
        self._end(report)
        return 0 if report.state == "Succeeded" else 1

    def _report(self) -> RunReport:
        """The report of the run, which starts Spark only if it may have something to do."""
        idle = check_for_work(self._document, _now)
        if idle.report is not None:
            return idle.report
        alone = idle.bytes is not None and idle.bytes < self._settings.executors_from_bytes
        session = partial(self._session, executors=not alone, little=idle.little)
        return execute(self._document, session, self._tracker, 0, _now, self._control, idle=idle)

    def _session(self, *, executors: bool, little: bool) -> "SparkSession":
        from messagestore_jobs.session import cluster_session

        spark = cluster_session(executors=executors, little=little)
        if executors:
            self._executors.watch(spark)
        return spark

    def _state(self) -> RunReport:
        return RunReport(
            run=self._document.run,
            sequence=0,
            state="Running",
            started_at=self._started_at,
            progress=self._tracker.progress,
            executors_refused=self._executors.refused(),
            outcome=self._control.outcome,
        )

    def _apply_commands(self, commands: Commands) -> None:
        if commands.stop:
            self._control.stop()
        if commands.maintain is not None:
            self._control.maintain(commands.maintain)
        if commands.paced:
            self._control.limit(commands.messages_per_second)

    def _end(self, report: RunReport) -> None:
        """Report and log once how the run ended."""
        self._ending.acquire()
        self._over.set()
        report = report.model_copy(update={"usage": of_container(report.usage)})
        self._tell("run ended", report)
        if self._reporting is not None:
            report = self._reporting.finish(report, _LEFT_SECONDS if self._stopping else DELIVERY_SECONDS)
        _write(self._settings.termination_log, report_text(report, self._secrets, TERMINATION_BYTES))

    def _tell(self, message: str, report: RunReport | None = None) -> None:
        """A line of the log, with the fields that the operator's lines have."""
        error = report.error if report else None
        fields = {
            **self._document.resource.model_dump(include={"kind", "namespace", "name"}),
            "run": self._document.run,
            "runKind": self._document.task.kind,
            "result": _result(report) if report else None,
            "reason": error.reason if error else None,
            "seconds": self._tracker.seconds() if report else {},
            "counts": counts_of(report.outcome if report else None),
        }
        tell(_log, logging.WARNING if error else logging.INFO, message, fields)

    def _stopped(self, report: RunReport) -> RunReport:
        """The report of a run whose pod was told to end: what it left undone, or what broke off, is no failure."""
        if report.error is None and self._control.cut_short:
            words = _CUT_SHORT
        elif report.error is not None and report.error.reason in AS_OF_ENDING_PODS:
            words = _BROKE_OFF
        else:
            return report
        return report.model_copy(update={"state": "Failed", "error": RunError(reason=RUN_STOPPED, message=words)})

    def _note_end(self) -> None:
        self._stopping = True

    def _stop(self) -> None:
        """Stop after the batch, chunk or commit under way; if that takes too long, report so in the grace period."""
        self._note_end()
        self._control.stop()
        if not self._over.wait(max(1.0, self._settings.grace_seconds - _LEFT_SECONDS)):
            self._give_up()

    def _give_up(self) -> None:
        error = RunError(reason=RUN_STOPPED, message=_NOT_IN_TIME)
        ended = {"state": "Failed", "finished_at": _now(), "progress": None, "error": error}
        self._end(self._state().model_copy(update=ended))
        os._exit(STOPPED)


def _result(report: RunReport) -> str:
    """How the run ended, in the words of a resource's status."""
    return "Cancelled" if report.error and report.error.reason == RUN_STOPPED else report.state


def _at_sigterm(note: Callable[[], None], stop: Callable[[], None]) -> None:
    """At SIGTERM call ``note`` between two instructions, and ``stop`` in another thread.

    That thread is told by Python's own handler, at once, also while a library lets no handler of ours run.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def wait() -> None:
        while receiver.recv(1)[0] != signal.SIGTERM:
            pass
        stop()

    signal.signal(signal.SIGTERM, lambda number, frame: note())
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def _now() -> datetime:
    return datetime.now(UTC)


def _write(path: Path, text: str) -> None:
    """Write a termination message, if the pod has a file for it."""
    try:
        path.write_bytes(text.encode()[:TERMINATION_BYTES])
    except OSError as error:
        _log.warning("the termination message can't be written: %s", error)


def _log_to_stderr(log_format: LogFormat, secrets: frozenset[str]) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(log_format, lambda text: scrubbed(text, secrets)))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("py4j").setLevel(logging.WARNING)
