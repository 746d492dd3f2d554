"""Figures of streams: one that isn't known has no series."""

from typing import Any

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics

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
    metrics, cache = Metrics(), Cache("SparkApplication")
    monkeypatch.setattr(cache, "resources", lambda: iter([stream]))
    metrics.watch_cache(cache)
    found = {name: metrics.registry.get_sample_value(f"messagestore_{name}", LABELS) for name in FIGURES}
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


def test_what_waits_has_an_age(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures(monkeypatch, {"lag": {"asOf": TIME, "files": 3, "oldestPendingTime": TIME}})
    assert found["lag_files"] == 3
    assert found["lag_seconds"] > 0
