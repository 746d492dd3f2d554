"""Small runs into stores of any size: ``python -m tests.perf.small_run [MESSAGES ...]``.

Seconds of an ingest of 1,000 new records, from its look for what is new, before Spark starts, to its end and to its
commit; each row is a process of its own. The store has its index, as after earlier runs. Spark's plain append of the
same records takes turns with it.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides, large_reads
from tests.perf.plain import plain_session
from tests.perf.processes import in_fresh_process

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import INDEX
from messagestore_core.store.objects import local_path
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import check_for_work
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.session import local_session

SIZES = (10_000, 10_000_000, 100_000_000)
RECORDS = 1000
_LARGE = 20_000_000
"""Stores from here on are made by ``large_reads``, as they would take a session long."""
_REPEATS = 3


def prepare(held: int) -> Path:
    """A store with this many messages and its index, made once."""
    store = large_reads.store_of(held, data.DAYS) if held >= _LARGE else data.base(_session, held)
    if not (store / INDEX).exists():
        StoreIndex(_session(), HeldStore(f"file://{store}")).save()
    return store


def measure(held: int, side: str) -> dict[str, float]:
    """One run, in this process; side ``append`` is Spark's plain append."""
    store = prepare(held)
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        uri = data.copy(store, Path(work) / "store")
        file = data.records(RECORDS, 200_000_000, 1)
        document = ingest_sides.arrived(uri, [file])
        begun, at = time.perf_counter(), time.time()
        if side == "append":
            timed = ingest_sides.append(plain_session(), uri, [file])
        else:
            session = _session(little=check_for_work(document, lambda: datetime.now(UTC)).little)
            timed = ingest_sides.store_from(session, document, Storage())
        ended = time.perf_counter()
        table = DeltaTable(f"{local_path(uri)}/messages")
        (commit,) = table.history(1)
        return {
            "commit": commit["timestamp"] / 1000 - at,
            "end": ended - begun,
            "opening": timed.opening,
            "batch": timed.batches[0],
        }


def _session(*, little: bool = False) -> SparkSession:
    return local_session(cores=2, memory="2g", little=little)


def main(sizes: list[int]) -> None:
    """Print the table."""
    table = Table(
        "messages", "side", "start to commit, s", "to the end of the run, s", "its opening, s", "its batch, s"
    )
    for held in sizes:
        side = ("tests.perf.small_run", "--side", str(held))
        subprocess.run([sys.executable, "-m", *side, "--prepare"], check=True, stdout=subprocess.DEVNULL)
        for _ in range(_REPEATS):
            for name in ("store", "append"):
                found = in_fresh_process(*side, name)
                table.add_row(f"{held:,}", name, *(f"{figure:.2f}" for figure in found.values()))
    Console(width=120).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        if sys.argv[3:] == ["--prepare"]:
            prepare(int(sys.argv[2]))
        else:
            sys.stdout.write(json.dumps(measure(int(sys.argv[2]), sys.argv[3])) + "\n")
    else:
        main([int(size) for size in sys.argv[1:]] or list(SIZES))
