"""The commands of the command line, each as a whole process: ``python -m tests.perf.commands``; prints medians of five.

The store of ``get`` and of a run with nothing new has the ten records of an earlier run.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

RECORDS, REPEATS = 10, 5
_COMMAND = Path(sys.executable).with_name("messagestore")
_RECORD = '{{"messageId":"m{0}","streamName":"order-{0}","type":"Placed","payload":{{"n":{0}}}}}\n'
_STREAM = """
apiVersion: messagestore.dev/v1alpha1
kind: MessageStream
metadata: {{name: orders}}
spec:
  table: {{uri: "file://{store}"}}
  source: {{files: {{uri: "file://{landing}"}}}}
  trigger: {{manual: {{}}}}
"""


class Spent(NamedTuple):
    """What one process took, without the CPU time of a JVM that it starts."""

    seconds: float
    cpu_seconds: float


def main() -> None:
    """Measure and print."""
    table = Table("messagestore", "seconds (median)", "min to max", "CPU-seconds (median)")
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-") as folder:
        for name, arguments in _rows(Path(folder)).items():
            seconds, cpu_seconds = zip(*(_spent(*arguments()) for _ in range(REPEATS)), strict=True)
            span = f"{min(seconds):.2f} to {max(seconds):.2f}"
            table.add_row(name, f"{statistics.median(seconds):.2f}", span, f"{statistics.median(cpu_seconds):.2f}")
    Console(width=120).print(table)


def _rows(folder: Path) -> dict[str, Callable[[], list[str]]]:
    """The arguments of each row's command, which are other ones for each new store."""
    known, numbers = _manifest(folder, "store"), count()
    _spent("run", "-f", known)
    return {
        "--version": lambda: ["--version"],
        "--help": lambda: ["--help"],
        "validate a stream": lambda: ["validate", "-f", known],
        "get of ten": lambda: ["get", f"file://{folder}/store"],
        "run with nothing new": lambda: ["run", "-f", known],
        "run, ten records into a new store": lambda: ["run", "-f", _manifest(folder, f"new-{next(numbers)}")],
    }


def _manifest(folder: Path, store: str) -> str:
    """A stream of some records into a store of its own."""
    landing, manifest = folder / f"{store}-landing", folder / f"{store}.yaml"
    landing.mkdir()
    (landing / "1.jsonl").write_text("".join(map(_RECORD.format, range(RECORDS))))
    manifest.write_text(_STREAM.format(store=folder / store, landing=landing))
    return str(manifest)


def _spent(*arguments: str) -> Spent:
    # As installed: without its compiled modules Python would compile them again in each process.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began, before = time.perf_counter(), os.times()
    quiet = subprocess.DEVNULL
    subprocess.run([_COMMAND, *arguments], env=environment, check=True, stdout=quiet, stderr=quiet)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return Spent(time.perf_counter() - began, used)


if __name__ == "__main__":
    main()
