"""Measures the operator under load: ``python -m tests.perf.operator_load``; prints a table of figures."""

import os
import platform
import re
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.perf.operator_load import audit
from tests.perf.operator_load.applying import apply_steadily, mixed
from tests.perf.operator_load.manifests import policies, streams
from tests.perf.operator_load.process import Usage, children, watched
from tests.perf.operator_load.scene import OPERATOR, Scene, scene

console = Console(width=140)


@dataclass(frozen=True)
class Measured:
    """The results of one measurement; times are seconds since 1970."""

    began: float
    applied: float
    ended: float
    requests: list[audit.Request]
    usage: dict[str, Usage]
    restarted: Usage
    busy: float
    streams: list[dict[str, Any]]
    policies: list[dict[str, Any]]
    fakes: dict[str, Any]
    figures: dict[str, float]
    settings: dict[str, Any]
    log: str


def main(
    number: Annotated[int, typer.Option("--streams", help="MessageStreams.", min=1, max=10_000)] = 1000,
    retention: Annotated[int, typer.Option("--policies", help="RetentionPolicies.", min=0, max=2_000)] = 200,
    continuous: Annotated[int, typer.Option(help="MessageStreams among them that go on.", min=0)] = 200,
    rate: Annotated[float, typer.Option(help="Streams applied a second.", min=0.1, max=200)] = 20,
    interval: Annotated[str, typer.Option(help="Between two starts of a stream's runs.")] = "PT2M",
    run_seconds: Annotated[float, typer.Option(help="How long a driver runs.")] = 10,
    seconds: Annotated[float, typer.Option(help="How long is measured, from the first stream on.")] = 200,
    values: Annotated[list[str] | None, typer.Option("--set", help="Values of the chart, name=value.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder for the audit log and the operator's own.")] = None,
) -> None:
    """Apply streams and policies at a steady rate, let them run, and print what it took."""
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with scene(run_seconds, [*(values or []), "reconcile.resync=PT2M"]) as found:
        wanted = mixed(streams(number, interval, min(continuous, number)), policies(retention, minutes=4))
        measured = _measure(found, wanted, rate, seconds)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / "audit.log").write_bytes((found.folder / "audit.log").read_bytes())
            (keep / "operator.log").write_text(measured.log)
    _tell(measured, number)


def _measure(found: Scene, wanted: list[dict[str, Any]], rate: float, seconds: float) -> Measured:
    # The operator and the fakes are both named python.
    known = {name: number for name, number in children().items() if "python" not in name}
    known |= {"operator": found.operator.process.pid, "fakes": found.fakes.pid}
    with watched(known) as usage:
        began, idle = time.time(), _idle()
        applied = apply_steadily(found, wanted, rate)
        while (left := began + seconds - time.time()) > 0:
            time.sleep(min(left, 1))
        ended = time.time()
        busy = (os.cpu_count() or 1) - (_idle() - idle) / (ended - began)
    names = ("watch_missed_total", "reconcile_errors_total", "reconcile_seconds_count", "reconcile_seconds_sum")
    figures = {name: found.operator.figure(f"messagestore_operator_{name}") for name in names}
    resources = found.resources("MessageStream"), found.resources("RetentionPolicy")
    log, fakes = found.operator.text, found.end()
    with found.restarted() as (_, restarted):
        time.sleep(10)
    requests = [one for one in audit.requests(found.folder) if began <= one.arrived <= ended]
    return Measured(
        began,
        applied,
        ended,
        requests,
        usage,
        restarted,
        busy,
        *resources,
        fakes,
        figures,
        found.settings,
        log,
    )


def _idle() -> float:
    """Seconds that the machine's processors have been idle, in total."""
    return float(Path("/proc/uptime").read_text().split()[1])


def _tell(measured: Measured, number: int) -> None:
    table = Table("figure", "value", "asked for")
    for row in (*_delays(measured, number), *_process(measured), *_requests(measured), *_runs(measured)):
        table.add_row(*row)
    console.print(table)
    console.print("requests of the operator, by verb and resource:", dict(audit.tally(_own(measured))))
    console.print("log lines by level:", dict(_levels(measured.log)))
    for problem in (*measured.fakes["problems"][:10], *_complaints(measured.log)[:10]):
        console.print(problem, style="red", markup=False)


def _delays(measured: Measured, number: int) -> list[tuple[str, str, str]]:
    delays = sorted(audit.delays(measured.requests, OPERATOR).values())
    took = measured.applied - measured.began
    rows = [("streams applied", f"{number} in {took:.1f} s, {number / took:.1f} a second", "1,000 at 20 a second")]
    if len(delays) < number:
        rows.append(("streams without an application", str(number - len(delays)), "0"))
    if len(delays) > 1:
        parts = statistics.quantiles(delays, n=100, method="inclusive")
        rows.append(("apply to SparkApplication created, p50", f"{parts[49]:.2f} s", ""))
        rows.append(("apply to SparkApplication created, p99", f"{parts[98]:.2f} s", "under 1 s"))
        rows.append(("apply to SparkApplication created, most", f"{delays[-1]:.2f} s", ""))
    return rows


def _process(measured: Measured) -> list[tuple[str, str, str]]:
    usage = measured.usage["operator"]
    at = [usage.memory[min(len(usage.memory) - 1, int(len(usage.memory) * part))] for part in (0, 0.25, 0.5, 0.75, 1)]
    each = ", ".join(f"{name} {one.processors:.2f}" for name, one in measured.usage.items())
    return [
        ("operator's memory, peak", f"{usage.peak:.0f} MiB", "under 150 MiB"),
        ("operator's memory, at 0, 25, 50, 75, 100 %", ", ".join(f"{one:.0f}" for one in at) + " MiB", ""),
        ("operator's memory after a restart, peak", f"{measured.restarted.peak:.0f} MiB", "under 200 MiB"),
        ("processors in use", each, ""),
        ("processors in use, whole machine", f"{measured.busy:.2f}", ""),
    ]


def _requests(measured: Measured) -> list[tuple[str, str, str]]:
    rate, burst = measured.settings["requestsPerSecond"], measured.settings["requestBurst"]
    arrivals = [one.arrived for one in audit.limited(measured.requests, OPERATOR)]
    seconds = audit.by_second(arrivals)
    runs = sum(measured.fakes["started"].values())
    refused = Counter(one.status for one in _own(measured) if one.status >= 400)
    return [
        ("requests of the operator", f"{len(arrivals)}, {len(arrivals) / max(1, runs):.1f} a run", ""),
        ("requests a second", f"{len(arrivals) / (measured.ended - measured.began):.0f}", "under 200"),
        ("status writes of a continuous stream", f"{_writes_an_hour(measured):.0f} an hour", ""),
        ("most in a second", str(max(seconds.values(), default=0)), f"at most {rate:g} + {burst}"),
        ("most beyond the rate in any span", f"{audit.most_at_once(arrivals, rate):.0f}", f"at most {burst}"),
        ("refused", str(dict(refused)), ""),
    ]


def _writes_an_hour(measured: Measured) -> float:
    """The rate of the last minute, when all have begun."""
    continuous = {one["metadata"]["name"] for one in measured.streams if "continuous" in one["spec"]["trigger"]}
    late = [one for one in _own(measured) if one.verb == "patch" and one.arrived > measured.ended - 60]
    writes = [one for one in late if one.resource == "messagestreams/status" and one.name in continuous]
    return 60 * len(writes) / max(1, len(continuous))


def _runs(measured: Measured) -> list[tuple[str, str, str]]:
    statuses = [one.get("status", {}) for one in measured.streams]
    again = sum(1 for status in statuses if status.get("runNumber", 0) >= 2 and status.get("lastRun"))
    purged = sum(1 for one in measured.policies if one.get("status", {}).get("purged"))
    figures = measured.figures
    looks = figures["reconcile_seconds_count"]
    each = figures["reconcile_seconds_sum"] / max(1, looks) * 1000
    return [
        ("runs started", str(measured.fakes["started"]), ""),
        ("runs ended", str(measured.fakes["ended"]), ""),
        ("streams with a second run", str(again), ""),
        ("policies that have purged", str(purged), ""),
        (
            "looks at resources",
            f"{looks:.0f}, {each:.1f} ms each",
            "",
        ),
        ("looks that failed", f"{figures['reconcile_errors_total']:.0f}", "0"),
        ("changes that no watch showed", f"{figures['watch_missed_total']:.0f}", "0"),
    ]


def _own(measured: Measured) -> list[audit.Request]:
    return [one for one in measured.requests if one.user == OPERATOR]


def _levels(log: str) -> Counter[str]:
    return Counter(re.findall(r"^\S+ \S+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) ", log, re.MULTILINE))


def _complaints(log: str) -> list[str]:
    return [line[:300] for line in log.splitlines() if " WARNING " in line or " ERROR " in line]


if __name__ == "__main__":
    typer.run(main)
