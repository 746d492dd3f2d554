"""What the operator logs about resources and runs."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import TableState
from messagestore_operator.api import MessageStream
from messagestore_operator.api.messagestream_status import MessageStreamStatus
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.cluster.apply import log_change, log_deleted, log_run
from messagestore_operator.decide.run_lifecycle import EndedRun
from support.launches import stream

NOW = datetime(2026, 4, 6, 12, 0, tzinfo=UTC)


def status(phase: str, reason: str, message: str = "") -> MessageStreamStatus:
    ready = {"type": "Ready", "status": "True", "reason": reason, "message": message}
    return MessageStreamStatus.model_validate({"phase": phase, "conditions": [ready]})


def with_status(found: MessageStreamStatus | None) -> MessageStream:
    return stream("orders").model_copy(update={"status": found})


def fields(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Level and fields of each line."""
    return [(record.levelname, record.__dict__["messagestore_fields"]) for record in caplog.records]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


ORDERS = {"kind": "MessageStream", "namespace": "default", "name": "orders"}


def test_a_change_of_state_is_one_line(log: pytest.LogCaptureFixture) -> None:
    log_change(with_status(None), status("Pending", "Waiting"))
    log_change(with_status(status("Pending", "Waiting")), status("Running", "Ingesting"))
    log_change(with_status(status("Running", "Ingesting")), status("Failing", "StorageDenied", "keys of payroll"))
    assert fields(log) == [
        ("INFO", {**ORDERS, "to": "Pending", "reason": "Waiting"}),
        ("INFO", {**ORDERS, "from": "Pending", "to": "Running", "reason": "Ingesting"}),
        ("WARNING", {**ORDERS, "from": "Running", "to": "Failing", "reason": "StorageDenied"}),
    ]


def test_new_figures_alone_are_no_line(log: pytest.LogCaptureFixture) -> None:
    log_change(with_status(status("Running", "Ingesting", "3 stored")), status("Running", "Ingesting", "4 stored"))
    assert fields(log) == []


def test_another_reason_of_the_same_phase_is_a_line(log: pytest.LogCaptureFixture) -> None:
    log_change(with_status(status("Failing", "StorageDenied")), status("Failing", "SecretMissing"))
    assert [one["reason"] for _, one in fields(log)] == ["SecretMissing"]


def test_a_deleted_resource_is_a_line(log: pytest.LogCaptureFixture) -> None:
    log_deleted(with_status(status("Running", "Ingesting")))
    assert fields(log) == [("INFO", {**ORDERS, "from": "Running", "to": "Deleted", "reason": "Deleted"})]


def ended(state: Any, report: RunReport | None = None, error: RunError | None = None) -> EndedRun:
    def before(seconds: int) -> str:
        return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    run = CurrentRun.model_validate(
        {
            "name": "orders-ingest-7",
            "kind": "ingest",
            "attempt": 2,
            "requestedAt": before(100),
            "launchedAt": before(90),
            "startedAt": before(60),
        }
    )
    return EndedRun(run, state, NOW, report, error)


RUN = {**ORDERS, "run": "orders-ingest-7", "runKind": "ingest", "attempt": 2}


def test_a_run_is_one_line_with_its_counts_and_seconds(log: pytest.LogCaptureFixture) -> None:
    table = TableState(version=1, messages=5, dead_letters=1, bytes=9)
    counts = IngestCounts(received=6, stored=5, dead_lettered=1)
    outcome = IngestOutcome(counts=counts, totals=counts, batches=2, table=table, lag=Lag(as_of=NOW))
    report = RunReport(run="orders-ingest-7", sequence=3, state="Succeeded", started_at=NOW, outcome=outcome)
    log_run(with_status(None), ended("Succeeded", report))
    ((level, found),) = fields(log)
    assert found.pop("counts") == {
        **dict.fromkeys(("duplicates", "filtered", "discarded", "unknownFields"), 0),
        "received": 6,
        "stored": 5,
        "deadLettered": 1,
        "batches": 2,
    }
    seconds = {"waiting": 10.0, "starting": 30.0, "working": 60.0}
    assert (level, found) == ("INFO", {**RUN, "result": "Succeeded", "seconds": seconds})


def test_a_failed_run_is_a_warning_with_its_reason_and_not_its_message(log: pytest.LogCaptureFixture) -> None:
    log_run(with_status(None), ended("Failed", error=RunError(reason="StorageDenied", message="payload: 4711")))
    ((level, found),) = fields(log)
    assert (level, found["result"], found["reason"]) == ("WARNING", "Failed", "StorageDenied")
    assert "4711" not in str(found)
