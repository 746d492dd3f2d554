"""How long a file waits for its rows: ``python -m tests.perf.latency`` prints a table.

A continuous ingest runs into a store of 10 M messages. Before, the same process ingests what has piled up, which shows
the greatest load; then files arrive at half of it. A file has arrived once it has its name; its rows are there once
their commit is.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides

from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource
from messagestore_core.progress import Silent
from messagestore_core.store.objects import local_path
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.session import local_session

HELD = 10_000_000
FILE = 5000
_WARM_UP_FILES = 60


class _UntilTold:
    """Lets a continuous run go on until an event is set."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def stopped(self, wait: timedelta) -> bool:
        return self.over.wait(wait.total_seconds())

    def taken_in(self, tell: Callable[[], IngestOutcome]) -> None:
        pass

    def between_batches(self) -> None:
        pass


def main(
    seconds: Annotated[int, typer.Option(help="How long files arrive.")] = 90,
    interval: Annotated[float, typer.Option(help="Seconds from one look for files to the next.")] = 1.0,
) -> None:
    """Measure, and print the table."""
    spark = local_session(cores=2, memory="4g")
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as folder:
        work = Path(folder)
        uri = data.copy(data.base(lambda: spark, HELD), work / "store")
        _ingest(spark, uri, _landed(work / "warm-up", 3), None)
        begun = time.perf_counter()
        _ingest(spark, uri, _landed(work / "piled-up", _WARM_UP_FILES), None)
        greatest = _WARM_UP_FILES * FILE / (time.perf_counter() - begun)
        waits = _waits(spark, uri, work, seconds, interval, greatest / 2)
    table = Table("greatest load, records/s", "files", "p50, s", "p95, s", "most, s")
    cuts = statistics.quantiles(waits, n=20)
    table.add_row(f"{greatest:,.0f}", str(len(waits)), f"{cuts[9]:.2f}", f"{cuts[18]:.2f}", f"{max(waits):.2f}")
    Console(width=100).print(table)


def _waits(spark: SparkSession, uri: str, work: Path, seconds: int, interval: float, load: float) -> list[float]:
    """Seconds that each file waited, in order of arrival."""
    control, landing = _UntilTold(), work / "landing"
    landing.mkdir()
    files = [data.records(FILE, 400_000_000 + i * FILE, 1000 + i) for i in range(int(seconds * load / FILE))]
    arrived: dict[str, float] = {}

    def arrive() -> None:
        begun = time.monotonic()
        for i, file in enumerate(files):
            time.sleep(max(0.0, begun + i * FILE / load - time.monotonic()))
            path = landing / f"{i:06}.jsonl"
            path.hardlink_to(file)
            arrived[f"file://{path}"] = time.time()
        time.sleep(15)
        control.over.set()

    before = DeltaTable(_messages(uri)).version()
    feeder = threading.Thread(target=arrive)
    feeder.start()
    _ingest(spark, uri, landing, control, timedelta(seconds=interval))
    feeder.join()
    there = _committed(_messages(uri), before)
    return [there[name] - at for name, at in arrived.items()]


def _landed(folder: Path, count: int) -> Path:
    """A folder with files that have arrived already."""
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:06}.jsonl").hardlink_to(data.records(FILE, 300_000_000 + i * FILE, 500 + i))
    return folder


def _ingest(
    spark: SparkSession, uri: str, landing: Path, control: _UntilTold | None, interval: timedelta | None = None
) -> None:
    task = IngestTask(
        source_id=landing.name,
        source=FilesSource(uri=f"file://{landing}"),
        envelope=Envelope(
            format="Custom", fields={name: FieldMapping(path=path) for name, path in ingest_sides.PATHS.items()}
        ),
        batch_interval=interval,
    )
    run_ingest(Run.of(data.document(uri, task), spark, Silent()), control)


def _messages(uri: str) -> str:
    return f"{local_path(uri)}/messages"


def _committed(messages: str, before: int) -> dict[str, float]:
    """When the first rows of each source file were committed, in seconds since 1970, after a version."""
    found: dict[str, float] = {}
    for commit in sorted(DeltaTable(messages).history(), key=lambda one: int(one["version"])):
        version = int(commit["version"])
        if version <= before:
            continue
        earlier, now = (set(DeltaTable(messages, version=one).file_uris()) for one in (version - 1, version))
        for file in now - earlier:
            sources = pq.ParquetFile(file).read(columns=["source.uri"])["source"].combine_chunks().field("uri")
            for name in sources.unique().to_pylist():
                found.setdefault(name, commit["timestamp"] / 1000)
    return found


if __name__ == "__main__":
    typer.run(main)
