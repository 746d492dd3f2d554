"""Listing a landing folder with a million files that were read, and ten that are new.

``python -m tests.perf.large_files``. The files are empty, as listing them costs the same; table ``files`` gets their
rows directly. Both are in a temporary folder, which needs a million inodes.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from tests.perf import data

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.stores import Table as StoreTable
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.schemas import FILES
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.session import local_session
from messagestore_jobs.source.file_arrivals import FileArrivals
from support.stores import add_rows

READ, NEW, A_FOLDER = 1_000_000, 10, 1_000
_AT = datetime(2026, 1, 5, tzinfo=UTC)


def main() -> None:
    """Make the files and the table, list three times, print seconds and the largest growth of Python's memory."""
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        landing, uri = Path(work) / "landing", f"file://{work}/store"
        # In its own process, so that its memory does not count for a listing.
        made = multiprocessing.get_context("spawn").Process(target=_make, args=(landing, uri))
        made.start()
        made.join()
        Console().print(_looks(uri, f"file://{landing}"))


def _make(landing: Path, uri: str) -> None:
    open_folder(HeldStore.of(StoreTable(uri=uri, owner=data.OWNER), Storage()))
    add_rows(HeldStore(uri), "files", pa.concat_tables(_made(landing)))
    for n in range(NEW):
        (landing / f"new-{n}.jsonl").write_text("{}\n")


def _made(landing: Path) -> Iterator[pa.Table]:
    """The rows of table ``files`` for the files that were read, one folder at a time."""
    for number in range(READ // A_FOLDER):
        folder = landing / f"{number:06}"
        folder.mkdir(parents=True)
        paths = [folder / f"orders-{n:06}.jsonl" for n in range(A_FOLDER)]
        for path in paths:
            path.touch()
        nothing = pa.array(np.zeros(A_FOLDER, np.int64))
        columns = {
            "source_id": pa.array(["perf"] * A_FOLDER),
            "batch": pa.array([number + 1] * A_FOLDER),
            "at": pa.array([_AT] * A_FOLDER, FILES.field("at").type),
            "uri": pa.array([f"file://{path}" for path in paths]),
            "size": nothing,
            "modified_at": pa.array([path.stat().st_mtime_ns // 1_000_000 * 1000 for path in paths]),
            "start": nothing,
            "end": nothing,
        }
        yield pa.table(columns).cast(FILES)


def _looks(uri: str, landing: str) -> Table:
    spark = local_session(cores=2, memory="4g")
    source = FilesSource(uri=landing)
    task = IngestTask(source_id="perf", source=source)
    table = Table("step", "seconds", "CPU seconds of Python", "Python's memory grew by, at most")
    before = _peak()

    def measured(step: str, what: str) -> None:
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        table.add_row(step, f"{wall:.1f}", f"{cpu:.1f}", f"{(_peak() - before) >> 20} MiB{what}")

    started = time.perf_counter(), time.process_time()
    arrivals = FileArrivals(Run.of(data.document(uri, task), spark, Silent()), task, source)
    measured("once a run: what was read", "")
    for _ in range(3):
        started = time.perf_counter(), time.process_time()
        arrivals.list_source()
        measured("a look", f", {arrivals.lag().files} files wait")
    return table


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
