"""A driver whose pod is told to end: whatever breaks off then is no failure."""

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Owner, Table
from messagestore_jobs.driver import main
from messagestore_jobs.driver.control import RunControl
from messagestore_jobs.driver.main import Driver, PodSettings

NOW = datetime(2026, 4, 6, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _own_signals() -> Any:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
    signal.set_wakeup_fd(-1)


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunReport]:
    """Run a driver whose work ends with an error, after SIGTERM or without; return its termination message.

    With ``left`` it stops with work left.
    """

    def drive(error: RunError | None, *, told: bool, left: bool = False) -> RunReport:
        def execute(*given: Any, **_: Any) -> RunReport:
            if told:
                os.kill(os.getpid(), signal.SIGTERM)
            control: RunControl = given[-1]
            while left and not control.stopped(timedelta(seconds=10)):
                pass
            state = "Failed" if error else "Succeeded"
            return RunReport(run="orders-ingest-1", sequence=1, state=state, started_at=NOW, error=error)

        monkeypatch.setattr(main, "execute", execute)
        document = RunDocument(
            run="orders-ingest-1",
            resource=Resource(kind="MessageStream", namespace="shop", name="orders"),
            table=Table(uri="file:///nowhere", owner=Owner(namespace="shop", name="orders")),
            task=IngestTask(source_id="s", source=FilesSource(uri="file:///landing")),
        )
        message = tmp_path / "message"
        Driver(document, PodSettings(tmp_path / "run.json", None, message, grace_seconds=30)).run()
        return RunReport.model_validate_json(message.read_text())

    return drive


@pytest.mark.parametrize("reason", ["RunFailed", "StorageUnreachable", "KafkaUnreachable", "OutOfMemory"])
def test_an_error_that_follows_from_sigterm_is_reported_as_a_stop(
    driven: Callable[..., RunReport], reason: str
) -> None:
    lost = RunError(reason=reason, message="Py4JJavaError: Job aborted: ExecutorLostFailure")
    stopped = driven(lost, told=True)
    assert stopped.error.reason == "RunStopped"
    assert "Py4J" not in stopped.error.message
    assert driven(lost, told=False).error == lost


@pytest.mark.parametrize("reason", ["StorageDenied", "TableRefused", "Fenced"])
def test_an_error_that_does_not_follow_from_sigterm_is_reported_unchanged(
    driven: Callable[..., RunReport], reason: str
) -> None:
    error = RunError(reason=reason, message="no")
    assert driven(error, told=True).error == error


def test_a_run_that_left_nothing_undone_has_succeeded(driven: Callable[..., RunReport]) -> None:
    assert driven(None, told=True).state == "Succeeded"


def test_a_run_that_ended_in_order_and_left_work_undone_was_stopped(driven: Callable[..., RunReport]) -> None:
    stopped = driven(None, told=True, left=True)
    assert (stopped.state, stopped.error.reason) == ("Failed", "RunStopped")


def test_the_end_of_a_run_is_one_line_of_the_log(
    driven: Callable[..., RunReport], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    driven(RunError(reason="RunFailed", message="payload 4711"), told=True)
    lines = [(one.getMessage(), one.__dict__.get("messagestore_fields")) for one in caplog.records]
    of_run = {"kind": "MessageStream", "namespace": "shop", "name": "orders", "run": "orders-ingest-1"}
    of_run["runKind"] = "ingest"
    (ended,) = [fields for words, fields in lines if words == "run ended"]
    assert ended.pop("seconds").keys() == {"start"}
    assert ended == {**of_run, "result": "Cancelled", "reason": "RunStopped"}
    assert ("run started", of_run) in lines
    assert "4711" not in caplog.text
