"""Dozens of streams and policies, with the chart's rights and limits; a benchmark has a thousand in this setup."""

from typing import Any

import pytest
from tests.perf.operator_load import audit
from tests.perf.operator_load.applying import apply_steadily, mixed
from tests.perf.operator_load.manifests import policies, streams
from tests.perf.operator_load.scene import OPERATOR, Scene, scene

from support.operators import eventually

STREAMS, POLICIES = 80, 16
RATE = 20
RUNS = 3
"""The least number of runs of each stream."""
WAIT_SECONDS = 150


@pytest.mark.long
def test_each_of_many_resources_runs_again_and_again_and_nothing_runs_twice_or_beside_another() -> None:
    with scene(1, ["reconcile.resync=PT10S"]) as found:
        apply_steadily(found, mixed(streams(STREAMS, "PT10S"), policies(POLICIES, minutes=1)), RATE)
        eventually(lambda: all(_runs(one) >= RUNS for one in found.resources("MessageStream")), WAIT_SECONDS)
        eventually(lambda: all(_purges(one) for one in found.resources("RetentionPolicy")), WAIT_SECONDS)
        _check_figures(found)
        log, fakes = found.operator.text, found.end()
        arrivals = [one.arrived for one in audit.limited(audit.requests(found.folder), OPERATOR)]
        assert audit.most_at_once(arrivals, found.settings["requestsPerSecond"]) <= found.settings["requestBurst"]
    assert fakes["problems"] == []
    assert fakes["started"]["ingest"] >= STREAMS * RUNS
    assert " ERROR " not in log


def _runs(stream: dict[str, Any]) -> int:
    """How many runs have succeeded; a failing stream never reaches the number."""
    return sum(1 for run in stream.get("status", {}).get("recentRuns", []) if run["state"] == "Succeeded")


def _purges(policy: dict[str, Any]) -> bool:
    return bool(policy.get("status", {}).get("purged"))


def _check_figures(found: Scene) -> None:
    """No reconciliation failed, and no list found a change that the watches had missed."""
    assert found.operator.get("/metrics")[0] == 200
    for name in ("reconcile_errors_total", "watch_missed_total"):
        assert found.operator.figure(f"messagestore_operator_{name}") == 0, name
