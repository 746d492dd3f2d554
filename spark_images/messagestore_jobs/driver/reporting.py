"""Reports while a run lasts, and its last report. Best effort: the run never waits for a report.

A report is never larger than its limit, and never has a secret in it.
"""

import json
import logging
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, ProxyHandler

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import PurgeOutcome
from messagestore_core.contract.records import KafkaSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunProgress, RunReport
from messagestore_core.text import LONGEST_MESSAGE, clipped, printable
from messagestore_jobs.driver.control import Commands, read_commands
from messagestore_jobs.driver.secrets import scrubbed

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 5.0
_log = logging.getLogger(__name__)

REPORT_BYTES = 64 << 10
TERMINATION_BYTES = 4 << 10
"""How many bytes of a termination message Kubernetes keeps."""
_TEXT = 300
_FEW_WORDS = 100

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REPORT = "report.json"
CONTROL = "control.json"
_SECONDS = 5


class Reporting:
    """A thread that reports changes and reads commands every few seconds."""

    def __init__(
        self,
        board: "ConfigMap",
        state: Callable[[], RunReport],
        text: Callable[[RunReport], str],
        apply_commands: Callable[[Commands], None],
        every_seconds: float,
    ) -> None:
        self._board, self._state, self._text, self._apply_commands = board, state, text, apply_commands
        self._every = every_seconds
        self._ended = threading.Event()
        self._sequence = 0
        self._reported: RunReport | None = None
        self._gone = False
        self._thread = threading.Thread(target=self._go_on, name="reporting", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, last: RunReport, seconds: float) -> RunReport:
        """Report the last state, with retries, within so many seconds; return the report with its sequence."""
        deadline, wait = time.monotonic() + seconds, _FIRST_WAIT
        self._ended.set()
        self._thread.join(seconds)
        last = self._numbered(last)
        while not self._gone and not self._deliver(last):
            if time.monotonic() + wait >= deadline:
                _log.warning("the last report could not be delivered")
                break
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
        return last

    def _go_on(self) -> None:
        while not self._gone:
            self._report()
            if self._ended.wait(self._every):
                return

    def _report(self) -> None:
        report = self._state()
        if report != self._reported:
            if self._deliver(self._numbered(report)):
                self._reported = report
        else:
            self._hear(self._board.read)

    def _numbered(self, report: RunReport) -> RunReport:
        self._sequence += 1
        return report.model_copy(update={"sequence": self._sequence})

    def _deliver(self, report: RunReport) -> bool:
        return self._hear(lambda: self._board.write_report(self._text(report)))

    def _hear(self, ask: Callable[[], dict[str, str]]) -> bool:
        try:
            self._apply_commands(read_commands(ask().get(CONTROL)))
        except ConfigMapGoneError as error:
            _log.warning("ConfigMap %s was deleted: no more reports are written", error)
            self._gone = True
        except Exception as error:
            _log.warning("no report could be written, or no command read: %s", error)
            return False
        return True


def report_text(report: RunReport, secrets: Collection[str], limit: int = REPORT_BYTES) -> str:
    """The report as JSON of at most ``limit`` bytes; less important parts are left out first."""
    for shorter in _shortened(_clean(report, secrets)):
        text = shorter.model_dump_json(by_alias=True, exclude_none=True)
        if len(text.encode()) <= limit:
            return text
    raise ValueError(f"a report of run {report.run} has no room in {limit} bytes")


def _clean(report: RunReport, secrets: Collection[str]) -> RunReport:
    def words(said: str, longest: int = LONGEST_MESSAGE) -> str:
        return clipped(printable(scrubbed(said, secrets)), longest)

    changes: dict[str, Any] = {}
    if report.error is not None:
        changes["error"] = report.error.model_copy(update={"message": words(report.error.message)})
    if report.progress is not None and report.progress.text is not None:
        changes["progress"] = report.progress.model_copy(update={"text": words(report.progress.text, _TEXT)})
    if report.executors_refused is not None:
        refused = report.executors_refused
        changes["executors_refused"] = refused.model_copy(update={"message": words(refused.message)})
    if isinstance(report.outcome, ReplayOutcome):
        changes["outcome"] = _saying(report.outcome, words)
    return report.model_copy(update=changes)


def _saying(outcome: ReplayOutcome, words: Callable[[str], str]) -> ReplayOutcome:
    """The outcome, with other words about the destinations that failed."""
    states = [
        one.model_copy(update={"error": one.error.model_copy(update={"message": words(one.error.message)})})
        if one.error is not None
        else one
        for one in outcome.destinations
    ]
    return outcome.model_copy(update={"destinations": tuple(states)})


def _shortened(report: RunReport) -> Iterator[RunReport]:
    yield report
    report = report.model_copy(update={"progress": None})
    yield report
    if isinstance(report.outcome, PurgeOutcome):
        preview = report.outcome.preview.model_copy(update={"by_rule": {}})
        yield report.model_copy(update={"outcome": report.outcome.model_copy(update={"preview": preview})})
    if isinstance(report.outcome, ReplayOutcome):
        yield report.model_copy(update={"outcome": _saying(report.outcome, lambda said: clipped(said, _FEW_WORDS))})
    yield report.model_copy(update={"outcome": None})


_UNITS = {
    "archive": "messages",
    "clean": "tables",
    "cluster": "days",
    "compact": "days",
    "delete": "tables and objects",
    "erase": "messages",
    "freeze": "messages",
    "remember ids": "ids",
    "remove": "messages",
    "replay": "messages",
    "scrub": "messages",
}


def units_of(document: RunDocument) -> dict[str, str]:
    """What each step of a run counts."""
    task = document.task
    if isinstance(task, ReplayTask) and task.origin == "DeadLetters":
        return {**_UNITS, "replay": "dead letters"}
    if not isinstance(task, IngestTask):
        return _UNITS
    sources = {"ingest": task.source, **({"updates": task.lifecycle.source} if task.lifecycle else {})}
    own = {step: "records" if isinstance(source, KafkaSource) else "bytes" for step, source in sources.items()}
    return {**_UNITS, **own}


class Tracker:
    """The progress of a run, for other threads; each line for people goes to the log too. Steps count ``units``."""

    def __init__(self, units: Mapping[str, str] = _UNITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._units = units
        self.progress = RunProgress(step="start")
        self._clock = clock
        self._since = clock()
        self._took: dict[str, float] = {}

    def seconds(self) -> dict[str, float]:
        """The seconds that each step took so far, over all its turns."""
        return {name: round(seconds, 1) for name, seconds in self._with_current().items()}

    def step(self, name: str, total: int | None = None) -> None:
        """A new step begins."""
        if name != self.progress.step:
            _log.info("%s", name)
        self._took, self._since = self._with_current(), self._clock()
        self.progress = RunProgress(
            step=name, total=total, unit=self._units.get(name) if total is not None else None, text=self.progress.text
        )

    def _with_current(self) -> dict[str, float]:
        step = self.progress.step
        return {**self._took, step: self._took.get(step, 0.0) + self._clock() - self._since}

    def advance(self, done: int) -> None:
        """So much more of the current step is done."""
        self.progress = self.progress.model_copy(update={"done": self.progress.done + done})

    def say(self, text: str) -> None:
        """A line for people; reports have the last one."""
        _log.info("%s", text)
        self.progress = self.progress.model_copy(update={"text": text})


class ConfigMapGoneError(Exception):
    """The ConfigMap was deleted: no operator waits for a report."""


@dataclass(frozen=True)
class ConfigMap:
    """One ConfigMap of the API server at ``server``; folder ``account`` has token and CA certificate."""

    server: str
    namespace: str
    name: str
    account: Path = ACCOUNT

    @staticmethod
    def of_environment(reference: str) -> "ConfigMap":
        """The ConfigMap ``namespace/name`` of the API server in the pod's environment."""
        namespace, _, name = reference.partition("/")
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        if ":" in host:
            host = f"[{host}]"
        account = Path(os.environ.get("MESSAGESTORE_SERVICE_ACCOUNT", ACCOUNT))
        return ConfigMap(f"https://{host}:{port}", namespace, name, account)

    def read(self) -> dict[str, str]:
        """Its data.

        Raises:
            ConfigMapGoneError: it was deleted.
            OSError: the API server can't be reached, or refuses.
        """
        return self._data("GET", None)

    def write_report(self, text: str) -> dict[str, str]:
        """Write a report, and return the data after that, with what others wrote.

        Raises:
            ConfigMapGoneError: it was deleted.
            OSError: the API server can't be reached, or refuses.
        """
        return self._data("PATCH", json.dumps({"data": {REPORT: text}}).encode())

    def _data(self, method: str, body: bytes | None) -> dict[str, str]:
        url = f"{self.server}/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"
        # Read the token each time, as the kubelet renews it.
        headers = {
            "Authorization": f"Bearer {(self.account / 'token').read_text().strip()}",
            "Accept": "application/json",
            "Content-Type": "application/merge-patch+json",
        }
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        # No proxy: the API server is in the cluster.
        opener = urllib.request.build_opener(ProxyHandler({}), HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=_SECONDS) as response:
                answer: Any = json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise ConfigMapGoneError(f"{self.namespace}/{self.name}") from error
            raise
        except ValueError as error:
            raise OSError(f"the API server answered with what is no JSON: {error}") from error
        data = answer.get("data")
        return data if isinstance(data, dict) else {}
