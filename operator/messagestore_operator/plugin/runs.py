"""``kubectl messagestore runs``, ``logs`` and ``cost``: what has run, what it said, and what it used."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import Output, OutputOption, document_of, echo, print_rows, printed
from messagestore_operator.kube.objects import name_of
from messagestore_operator.names import DRIVER, DRIVER_ENDING
from messagestore_operator.plugin.facts import Run, end_of, runs
from messagestore_operator.plugin.find import (
    ALL,
    NOUNS,
    Kind,
    MaybeKind,
    MaybeName,
    Name,
    all_of,
    find,
    kind_of,
    named,
    wanted_kind,
)
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import Everywhere, UserError, reaching
from messagestore_operator.plugin.words import ago, size

VCPU_HOUR = 0.04048
"""Dollars for a vCPU for an hour, as in docs/costs.md."""
_TRIED = 2
"""Of so many runs, the newest first, the log is looked for."""


@reaching
def list_runs(
    kubectl: Kubectl,
    kind: MaybeKind = None,
    name: MaybeName = None,
    everywhere: Everywhere = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List runs: those in progress first, then ended ones, the newest first, as far as the resources list them."""
    documents = _chosen(kubectl, kind, name)
    listed = sorted(
        (run for one in documents for run in runs(one)), key=lambda run: (run.current, end_of(run)), reverse=True
    )
    if printed(output, [document_of(run) for run in listed], "runs"):
        return
    now = datetime.now(UTC)
    columns = ("RUN", "OF", "TASK", "STATE", "STARTED", "SECONDS", "REASON", "MESSAGE")
    rows = [(*_names(run), run.task, run.state, *_times(run, now), run.reason, run.message) for run in listed]
    print_rows(columns, rows, "no runs")


@reaching
def logs(
    kubectl: Kubectl,
    kind: Kind,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the driver ends.")] = False,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="A run that `runs` lists.")] = None,
    tail: Annotated[int, typer.Option("--tail", metavar="LINES", min=-1, help="The last lines only; -1: all.")] = -1,
) -> None:
    """Print the log of the driver of a resource's current run, or of its last one while that has no driver.

    A policy has a run for each stream: the newest counts.
    """
    document = find(kubectl, kind_of(kind), name)
    if run is None:
        chosen = [one for one in runs(document) if not one.current or one.launched_at is not None]
    else:
        chosen = [one for one in runs(document) if one.run == run]
    if not chosen:
        raise UserError(f"{name} lists no run {run}" if run else f"{name} has had no run yet")
    options = (f"--container={DRIVER}", f"--tail={tail}", f"--follow={str(follow).lower()}")
    if not any(_has_printed(kubectl, one, options) for one in chosen[:_TRIED]):
        raise UserError("no log is left")


def _has_printed(kubectl: Kubectl, run: Run, options: Sequence[str]) -> bool:
    """Print the log of a run's driver; false if it has no pod."""
    pod = f"{run.run}{DRIVER_ENDING}"
    try:
        for line in kubectl.lines("logs", pod, *options):
            echo(line)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
        echo(f"the driver's pod {pod} is gone, or not made yet, and its log with it", err=True)
        return False
    return True


@reaching
def cost(
    kubectl: Kubectl,
    kind: MaybeKind = None,
    name: MaybeName = None,
    everywhere: Everywhere = False,
    price: Annotated[
        float, typer.Option("--price", metavar="DOLLARS", min=0, help="Of a vCPU for an hour.")
    ] = VCPU_HOUR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Sum up what the listed runs used: CPU time of driver and tasks, bytes written, and what the CPU time costs.

    Requests to the object storage are not reported by runs; docs/costs.md has measurements.
    """
    rows = [used(one, price) for one in _chosen(kubectl, kind, name)]
    if printed(output, rows, "used"):
        return
    columns = ("OF", "RUNS", "MEASURED", "CPU-SECONDS", "WRITTEN", "CPU-COST", "A-RUN")
    cells = [
        (
            f"{NOUNS[row['kind']]}/{row['name']}",
            row["runs"],
            row["measured"],
            f"{row['cpuSeconds']:.1f}",
            size(row["bytesWritten"]),
            f"${row['cpuDollars']:.5f}",
            f"${row['cpuDollars'] / row['measured']:.5f}" if row["measured"] else "",
        )
        for row in rows
    ]
    print_rows(columns, cells, "no resources")


def used(document: Document, price: float) -> dict[str, Any]:
    """What the listed runs of a resource used; ``measured`` counts those that report it.

    Args:
        price: of a vCPU for an hour.
    """
    listed = runs(document)
    measured = [one.cpu_seconds for one in listed if one.cpu_seconds is not None]
    return {
        "kind": document["kind"],
        "namespace": document["metadata"].get("namespace", ""),
        "name": name_of(document),
        "runs": len(listed),
        "measured": len(measured),
        "cpuSeconds": round(sum(measured), 1),
        "bytesWritten": sum(one.bytes_written or 0 for one in listed),
        "cpuDollars": round(sum(measured) / 3600 * price, 6),
    }


def _chosen(kubectl: Kubectl, kind: str | None, name: str | None) -> list[Document]:
    """The resources of a kind and a name, or all."""
    wanted = wanted_kind(kind, name)
    return named(kubectl, all_of(kubectl, ALL), wanted, name)


def _names(run: Run) -> tuple[str, str]:
    of = f"{NOUNS[run.kind]}/{run.resource}"
    return run.run, f"{of} on {run.stream}" if run.stream else of


def _times(run: Run, now: datetime) -> tuple[str, str]:
    if run.started_at is None:
        return "", ""
    begun = datetime.fromisoformat(run.started_at)
    ended = datetime.fromisoformat(run.finished_at) if run.finished_at else now
    return ago(run.started_at, now), f"{max(0.0, (ended - begun).total_seconds()):.0f}"
