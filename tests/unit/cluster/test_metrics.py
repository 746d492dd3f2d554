"""Figures of streams: one that isn't known has no series."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStream
from messagestore_operator.api.status import CurrentRun, RunState
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics
from messagestore_operator.decide.run_lifecycle import EndedRun

TIME = "2026-01-05T08:20:00Z"
LABELS = {"namespace": "default", "stream": "orders"}
FIGURES = ("messages", "dead_letters", "lag_files", "lag_seconds")


def figures(monkeypatch: pytest.MonkeyPatch, status: dict[str, Any]) -> dict[str, float]:
    """The figures of a stream with a status, by name."""
    stream = MessageStream.model_validate(
        {
            "metadata": {"name": "orders", "namespace": "default"},
            "spec": {
                "table": {"uri": "s3a://lake/orders"},
                "source": {"files": {"uri": "s3a://landing/orders/"}},
                "trigger": {"manual": {}},
            },
            "status": status,
        }
    )
    metrics, cache = Metrics(), Cache()
    monkeypatch.setattr(cache, "resource_keys", lambda: [stream.identity])
    monkeypatch.setattr(cache, "peek", lambda key: stream)
    metrics.watch_cache(cache)
    read = [sample for one in text_string_to_metric_families(metrics.page().decode()) for sample in one.samples]
    told = {sample.name.removeprefix("messagestore_"): sample.value for sample in read if sample.labels == LABELS}
    found = {name: told.get(name) for name in FIGURES}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, {}),
        ({"table": {"version": 1}}, {}),
        ({"table": {"messages": 0, "deadLetters": 2}}, {"messages": 0, "dead_letters": 2}),
        ({"lag": {"asOf": TIME, "files": 0}}, {"lag_files": 0, "lag_seconds": 0}),
        ({"lag": {"asOf": TIME, "records": 0}}, {"lag_seconds": 0}),
        ({"lag": {"asOf": TIME, "files": 3}}, {"lag_files": 3}),
        ({"lag": {"asOf": TIME, "summary": "unknown"}}, {}),
    ],
)
def test_an_unknown_figure_has_no_series(
    monkeypatch: pytest.MonkeyPatch, status: dict[str, Any], wanted: dict[str, float]
) -> None:
    assert figures(monkeypatch, status) == wanted


def test_a_lag_in_files_has_an_age_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures(monkeypatch, {"lag": {"asOf": TIME, "files": 3, "oldestPendingTime": TIME}})
    assert found["lag_files"] == 3
    assert found["lag_seconds"] > 0


def ended(begun: str | None, state: RunState = "Succeeded", **times: str) -> EndedRun:
    run = CurrentRun.model_validate({"name": "r", "kind": "ingest", "launchedAt": TIME, **times})
    report = RunReport(run="r", sequence=1, state="Running", started_at=begun) if begun else None
    return EndedRun(run, state, datetime.fromisoformat(TIME) + timedelta(minutes=1), report)


def observed(run: EndedRun) -> dict[str, float | None]:
    """The sums of seconds of one run."""
    metrics = Metrics()
    metrics.observe_run(run)
    value, kind = metrics.registry.get_sample_value, {"kind": "ingest"}
    return {
        "run": value("messagestore_run_seconds_sum", {**kind, "outcome": run.state}),
        "start": value("messagestore_driver_start_seconds_sum", kind),
    }


def test_a_run_that_ended_tells_how_long_it_and_the_start_of_its_driver_took() -> None:
    run = ended("2026-01-05T08:20:12Z", startedAt="2026-01-05T08:20:10Z")
    assert observed(run) == {"run": 50, "start": 12}


def test_a_run_without_a_driver_tells_how_long_it_waited_for_one() -> None:
    assert observed(ended(None, "Failed")) == {"run": 60, "start": None}


@pytest.mark.parametrize("begun", ["2026-01-05T08:20:12", "2026-01-05T08:21:01Z"])
def test_a_report_with_an_impossible_time_tells_no_start(begun: str) -> None:
    assert observed(ended(begun))["start"] is None


def test_a_driver_whose_clock_is_behind_took_no_time() -> None:
    assert observed(ended("2026-01-05T08:19:58Z"))["start"] == 0
