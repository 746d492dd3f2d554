"""Measures the operator's memory with many ended runs: ``python -m tests.perf.operator_load.ended_runs``.

Each stream runs as often as its runs are kept, and continues during the measurement: each further run replaces an older
one. None of them is continuous, as such a run never ends.
"""

import json
import os
import platform
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table
from tests.perf.operator_load.applying import apply_steadily, mixed
from tests.perf.operator_load.manifests import policies, streams
from tests.perf.operator_load.process import Usage, watched
from tests.perf.operator_load.scene import Scene, Stage, scene

from messagestore_operator.cluster.labels import RESOURCE_LABELS, RUN_KIND
from messagestore_operator.kube.objects import SELECTOR
from messagestore_operator.names import RUN
from support import sparkoperator
from support.operators import Operator, eventually

console = Console(width=140)
_COLLECTIONS = {
    "SparkApplication": f"/apis/{sparkoperator.GROUP}/v1beta2/{sparkoperator.PLURAL}",
    "Pod": "/api/v1/pods",
    "ConfigMap": "/api/v1/configmaps",
}
_PAGE = 500
_KNOWN = re.compile(r'^messagestore_runs\{kind="ingest",state="Succeeded"\} (\S+)$', re.MULTILINE)
_COMPLAINTS = {"looks that failed": "reconcile_errors_total", "changes that no watch showed": "watch_missed_total"}


@dataclass(frozen=True)
class Plan:
    """The resources, and the times of the measurement in seconds."""

    resources: list[dict[str, Any]]
    rate: float
    """Streams applied per second."""
    ended: int
    """Ended runs of each stream."""
    patience: float
    """The time limit for them."""
    seconds: float
    """The length of the measurement after that."""


@dataclass(frozen=True)
class Span:
    """A time of one operator in which all ended runs existed."""

    usage: Usage
    began: int
    """The number of its first sample."""
    known: float
    """Ended runs of streams in its memory."""
    looks: float
    complaints: dict[str, float]

    @property
    def steady(self) -> float:
        """The median of its memory, in MiB."""
        return statistics.median(self.usage.memory[self.began :])


@dataclass(frozen=True)
class Kept:
    """The objects on the API server; counted while no operator runs, so that nothing changes meanwhile."""

    of_each: Counter[str]
    """For each stream, its ended runs with an application, a pod and a ConfigMap."""
    objects: Counter[str]
    """The objects of all runs, including policies' runs, by kind."""


@dataclass(frozen=True)
class Measured:
    """The operator that saw each run end, and the one that found them all, each with the objects after it."""

    spans: list[tuple[Span, Kept]]
    took: float
    fakes: dict[str, Any]


def main(
    number: Annotated[int, typer.Option("--streams", help="MessageStreams.", min=1, max=10_000)] = 1000,
    retention: Annotated[int, typer.Option("--policies", help="RetentionPolicies.", min=0, max=2_000)] = 200,
    ended: Annotated[int, typer.Option("--ended-runs", help="Ended runs of each stream.", min=1, max=10)] = 10,
    rate: Annotated[float, typer.Option(help="Streams applied a second.", min=0.1, max=200)] = 20,
    interval: Annotated[int, typer.Option(help="Seconds between two starts of a stream's runs.", min=1)] = 90,
    run_seconds: Annotated[float, typer.Option(help="How long a driver runs.")] = 10,
    seconds: Annotated[float, typer.Option(help="How long is measured, before and after the restart.", min=3)] = 200,
    values: Annotated[list[str] | None, typer.Option("--set", help="Values of the chart, name=value.")] = None,
) -> None:
    """Let each stream run this often, and print what the operator uses then, and after a restart."""
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with scene(run_seconds, [*(values or []), "reconcile.resync=PT2M", f"runs.endedRuns={ended}"]) as found:
        wanted = mixed(streams(number, f"PT{interval}S"), policies(retention, minutes=4))
        patience = 2 * ended * (interval + run_seconds) + 60
        measured = _measure(found, Plan(wanted, rate, ended, patience, seconds))
    _tell(measured, ended)


def _measure(found: Scene, plan: Plan) -> Measured:
    with watched({"operator": found.operator.process.pid}) as usage:
        began = time.monotonic()
        apply_steadily(found, plan.resources, plan.rate)
        eventually(lambda: _each_has(found, plan.ended), plan.patience)
        took = time.monotonic() - began
        running = _span(found.operator, usage["operator"], plan.seconds)
    found.operator.stop()
    spans = [(running, _kept(found))]
    with found.restarted() as (operator, restarted):
        after = _span(operator, restarted, plan.seconds)
    spans.append((after, _kept(found)))
    return Measured(spans, took, found.end())


def _each_has(found: Scene, ended: int) -> bool:
    """Whether each stream lists this many succeeded runs; requested every few seconds, as the answer is long."""
    time.sleep(5)
    if found.operator.process.poll() is not None:
        raise RuntimeError(f"the operator ended:\n{found.operator.text[-2000:]}")
    lists = (one.get("status", {}).get("recentRuns", []) for one in found.resources("MessageStream"))
    return all(sum(run["state"] == "Succeeded" for run in runs) >= ended for runs in lists)


def _span(operator: Operator, usage: Usage, seconds: float) -> Span:
    began = len(usage.memory)
    time.sleep(seconds)
    known = _KNOWN.search(operator.get("/metrics")[1])
    looks = operator.figure("messagestore_operator_reconcile_seconds_count")
    complaints = {words: operator.figure(f"messagestore_operator_{name}") for words, name in _COMPLAINTS.items()}
    return Span(usage, began, float(known[1]) if known else 0, looks, complaints)


def _kept(found: Stage) -> Kept:
    """Count the objects."""
    objects, ended = Counter[str](), list[set[tuple[str, str]]]()
    for kind in _COLLECTIONS:
        runs = [(_run(one), _has_ended(one)) for one in _all(found, kind)]
        objects[kind] = len(runs)
        ended.append({run for run, over in runs if over and run is not None})
    of_each = Counter({_place(one["metadata"], one["metadata"]["name"]): 0 for one in found.resources("MessageStream")})
    of_each.update(stream for stream, _ in set.intersection(*ended))
    return Kept(of_each, objects)


def _all(found: Stage, kind: str) -> Iterator[dict[str, Any]]:
    """All objects of runs, page by page."""
    query, more = f"?limit={_PAGE}&labelSelector={quote(SELECTOR)}", ""
    while True:
        page = found.server.request("GET", f"{_COLLECTIONS[kind]}{query}{more}").body
        yield from page["items"]
        if not page["metadata"].get("continue"):
            return
        more = f"&continue={quote(page['metadata']['continue'])}"


def _run(part: dict[str, Any]) -> tuple[str, str] | None:
    """The stream of an object's run, and the run; None for a policy's run."""
    labels = part["metadata"]["labels"]
    if labels[RUN_KIND] != "ingest":
        return None
    return _place(part["metadata"], labels[RESOURCE_LABELS["MessageStream"]]), labels[RUN]


def _place(metadata: dict[str, Any], name: str) -> str:
    return f"{metadata['namespace']}/{name}"


def _has_ended(part: dict[str, Any]) -> bool:
    """Whether an object shows that its run succeeded: an application, a pod or a ConfigMap with a report."""
    if "deletionTimestamp" in part["metadata"]:
        return False
    status, report = part.get("status") or {}, json.loads(part.get("data", {}).get("report.json", "{}"))
    states = (status.get("applicationState", {}).get("state"), status.get("phase"), report.get("state"))
    return any(state in ("COMPLETED", "Succeeded") for state in states)


def _tell(measured: Measured, ended: int) -> None:
    table = Table("figure", "the operator that saw them end", "after a restart that found them", "asked for")
    asked = {"ended runs on the API server": f"{ended} of each", "memory, peak": "under 200 MiB"}
    asked |= dict.fromkeys(_COMPLAINTS, "0")
    first, second = (_figures(*span) for span in measured.spans)
    for name, value in first.items():
        table.add_row(name, value, second[name], asked.get(name, ""))
    console.print(table)
    console.print(f"all were there after {measured.took:.0f} s; runs ended in all: {measured.fakes['ended']}")
    for problem in measured.fakes["problems"][:10]:
        console.print(problem, style="red", markup=False)


def _figures(span: Span, kept: Kept) -> dict[str, str]:
    counts = kept.of_each.values()
    return {
        "ended runs on the API server": f"{len(counts)} streams with {min(counts)} to {max(counts)}",
        "objects of runs": ", ".join(f"{count} {kind}s" for kind, count in kept.objects.items()),
        "ended runs of streams in memory": f"{span.known:.0f}",
        "memory, peak": f"{span.usage.peak:.0f} MiB",
        "memory, median with all of them": f"{span.steady:.0f} MiB",
        "memory, at the end": f"{span.usage.memory[-1]:.0f} MiB",
        "processors in use": f"{span.usage.processors:.2f}",
        "looks at resources": f"{span.looks:.0f}",
        **{words: f"{number:.0f}" for words, number in span.complaints.items()},
    }


if __name__ == "__main__":
    typer.run(main)
