"""Runs the benchmarks: ``PYTHONPATH=tests python -m tests.perf [NAME …]``.

Prints a table of ratios measured side by side in one run.
"""

import json
import os
import platform
import statistics
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from tests.perf.benchmarks import BENCHMARKS, Benchmark, Figures
from tests.perf.processes import in_fresh_process

console = Console(width=140)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Which: {', '.join(BENCHMARKS)}. Default: all.")] = None,
    repeats: Annotated[int, typer.Option(help="Fresh processes a side.", min=1, max=20)] = 5,
) -> None:
    """Measure, check that the sides did the same work, and print medians and ratios."""
    console.print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    table = Table("benchmark", "side", "seconds (median)", "min to max", "ratio", "asked for")
    for name in names or list(BENCHMARKS):
        _measure(name, BENCHMARKS[name], repeats, table)
    console.print(table)


def _measure(name: str, benchmark: Benchmark, repeats: int, table: Table) -> None:
    runs: dict[str, list[Figures]] = {side: [] for side in benchmark.sides}
    for turn in range(repeats):
        for side, (how, arguments) in benchmark.sides.items():
            runs[side].append(in_fresh_process("tests.perf.side", name, how, json.dumps(arguments)))
            console.print(f"{name} {turn + 1}/{repeats} {side}: {runs[side][-1]}", style="dim", soft_wrap=True)
        console.print(benchmark.check({side: figures[-1] for side, figures in runs.items()}), style="dim")
    medians = {side: statistics.median(f["seconds"] for f in figures) for side, figures in runs.items()}
    for side, figures in runs.items():
        seconds = [f["seconds"] for f in figures]
        table.add_row(name, side, f"{medians[side]:.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}")
        opening = [f["opening"] for f in figures if f.get("opening")]
        if opening:
            table.add_row("", "  before its first batch", f"{statistics.median(opening):.2f}", "once a run")
    for ratio in benchmark.ratios:
        value = medians[ratio.numerator] / medians[ratio.denominator]
        table.add_row(name, ratio.name, "", "", f"{value:.3f}", ratio.asked)


if __name__ == "__main__":
    typer.run(main)
