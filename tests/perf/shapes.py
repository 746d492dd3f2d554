"""Ingest of the same records in files of each shape: ``python -m tests.perf.shapes``.

Each shape's files are ingested into an empty store, all shapes in turn, in one process. Prints medians: records a
second, and CPU seconds of Spark and Python, each beside those of plain lines in the same round.
"""

import base64
import bz2
import gzip
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.perf import data
from tests.perf.ingest_sides import PATHS

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, FilesSource, Unwrap, ValueMapping
from messagestore_core.progress import Silent
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.session import local_session
from support.packing import zstd

FILES, RECORDS, ROUNDS = 4, 50_000, 3
"""Files of so many records each."""
PLAIN = "lines"
FIELDS = {name: FieldMapping(path=path) for name, path in PATHS.items()}
REGION = {"region": ValueMapping(path="$.region", in_="Document")}
_TICKS = os.sysconf("SC_CLK_TCK")


def _lines(records: list[bytes]) -> bytes:
    return b"\n".join(records) + b"\n"


def _document(records: list[bytes]) -> bytes:
    return b'{"Records":[' + b",".join(records) + b'],"region":"eu"}'


def _text(records: list[bytes]) -> bytes:
    escaped = (record.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for record in records)
    return _lines([b'{"Message":"%s"}' % record for record in escaped])


def _base64(records: list[bytes]) -> bytes:
    return _lines([b'{"Message":"%s"}' % base64.b64encode(record) for record in records])


SHAPES: dict[str, tuple[Callable[[list[bytes]], bytes], dict[str, Any]]] = {
    PLAIN: (_lines, {}),
    "one after the other": (b"".join, {"format": "JSON"}),
    "a sequence with RS": (lambda records: b"".join(b"\x1e%s\n" % record for record in records), {"format": "JSON"}),
    "an array": (lambda records: b"[" + b",".join(records) + b"]", {"format": "JSON"}),
    "recordsPath": (_document, {"format": "JSON", "records_path": ("$.Records",)}),
    "recordsPath, a value behind the array": (
        _document,
        {"format": "JSON", "records_path": ("$.Records",), "add_headers": REGION},
    ),
    "unwrapped from text": (_text, {"unwrap": (Unwrap(path="$.Message"),)}),
    "unwrapped from base64": (_base64, {"unwrap": (Unwrap(path="$.Message", encoding="Base64"),)}),
    "lines, gzip": (lambda records: gzip.compress(_lines(records), 6), {}),
    "lines, zstd": (lambda records: zstd(_lines(records)), {}),
    "lines, bzip2": (lambda records: bz2.compress(_lines(records)), {}),
}


def main() -> None:
    """Make the files, ingest them in turn, print the table."""
    chosen = [name for name in SHAPES if not sys.argv[1:] or name in (PLAIN, *sys.argv[1:])]
    lines = data.records(FILES * RECORDS, 0, 1).read_bytes().splitlines()
    # What is no record would end a document.
    lines = [line for line in lines if _is_object(line)]
    parts = [lines[n::FILES] for n in range(FILES)]
    spark = local_session(cores=2, memory="4g")
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        for name in chosen:
            landing = _landing(Path(work), name)
            landing.mkdir()
            for number, part in enumerate(parts):
                (landing / str(number)).write_bytes(SHAPES[name][0](part))
        for round_ in range(ROUNDS + 1):
            for name in chosen:
                one = _ingested(spark, Path(work), name, len(lines))
                # The first compiles.
                spent[name] += [one] if round_ else []
    Console(width=120).print(_table(spent, len(lines)))


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _landing(work: Path, name: str) -> Path:
    return work / name.replace(" ", "-").replace(",", "")


def _ingested(spark: SparkSession, work: Path, name: str, records: int) -> tuple[float, float]:
    """Seconds, and CPU seconds."""
    settings = dict(SHAPES[name][1])
    envelope = {one: settings.pop(one) for one in ("unwrap", "add_headers") if one in settings}
    task = IngestTask(
        source_id="perf",
        source=FilesSource(uri=f"file://{_landing(work, name)}", **settings),
        envelope=Envelope(format="Custom", fields=FIELDS, **envelope),
    )
    store = work / "store"
    run = Run.of(data.document(f"file://{store}", task), spark, Silent(), Storage())
    open_folder(run.store)
    began, before = time.perf_counter(), _cpu(spark)
    totals = run_ingest(run).totals
    took = time.perf_counter() - began, _cpu(spark) - before
    assert totals.received == records, (name, totals)
    assert totals.dead_lettered < records / 1000, (name, totals)
    assert Store(f"file://{store}").table("messages").version() > 0
    shutil.rmtree(store)
    return took


def _cpu(spark: SparkSession) -> float:
    """CPU seconds of this process and of its JVM, so far."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in (os.getpid(), jvm))
    return sum(int(one[11]) + int(one[12]) for one in fields) / _TICKS


def _table(spent: dict[str, list[tuple[float, float]]], records: int) -> Table:
    table = Table("files of", "records a second", "beside lines", "CPU seconds", "lines' beside these")
    for name, rounds in spent.items():
        seconds, cpu = (statistics.median(values) for values in zip(*rounds, strict=True))
        beside, cpu_beside = (
            statistics.median(plain[i] / own[i] for plain, own in zip(spent[PLAIN], rounds, strict=True))
            for i in (0, 1)
        )
        table.add_row(name, f"{records / seconds:,.0f}", f"{beside:.2f}", f"{cpu:.1f}", f"{cpu_beside:.2f}")
    return table


if __name__ == "__main__":
    main()
