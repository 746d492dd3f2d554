"""The id index of stores that are larger than a benchmark can make: keys are made in the index's own format.

``python -m tests.perf.large_index [KEYS ...]`` prints a table, each row from its own process: how long it takes to
open an index with this many keys, to look 100,000 ids up in it, and to ingest 100,000 records into a store that has
it; and how much memory Python itself used. Keys stay in the cache folder between calls: 26 bytes each.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides
from tests.perf.processes import in_fresh_process

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.id_index import IndexManifest, SortedRunInfo
from messagestore_core.store.layout import INDEX, INDEX_MANIFEST
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.index.entries import ENTRY, Entries
from messagestore_jobs.index.keys import Hasher
from messagestore_jobs.index.sorted_runs import write_sorted_run
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.session import local_session

SIZES = (0, 10_000_000, 100_000_000, 1_000_000_000)
BATCH, BATCHES = 100_000, 7
_PART = 1 << 20


def keys(count: int) -> SortedRunInfo:
    """A sorted run of ``count`` random keys, made once."""
    folder = data.folder() / "keys"
    kept = folder / f"{count}.json"
    if not kept.exists():
        name = f"ids-{UUID(int=count).hex}"
        info = write_sorted_run(Objects(f"file://{folder}", Storage()), name, _random(count), count)
        kept.write_text(info.model_dump_json())
    return SortedRunInfo.model_validate_json(kept.read_text())


def _random(count: int) -> Iterator[Entries]:
    parts = max(1, -(-count // _PART))
    generator = np.random.default_rng(count)
    for part in range(parts):
        entries = np.empty(count * (part + 1) // parts - count * part // parts, dtype=ENTRY)
        first, last = (part << 64) // parts, ((part + 1 << 64) // parts) - 1
        entries["high"] = np.sort(generator.integers(first, last, len(entries), dtype=np.uint64, endpoint=True))
        entries["low"] = generator.integers(0, (1 << 64) - 1, len(entries), dtype=np.uint64, endpoint=True)
        entries["value"] = 1_700_000_000_000_000
        yield entries


def with_keys(store: Path, count: int) -> None:
    """Add ``count`` keys to a store's index."""
    if count:
        info, folder = keys(count), store / INDEX
        (folder / info.name).hardlink_to(data.folder() / "keys" / info.name)
        manifest = IndexManifest.model_validate_json((folder / INDEX_MANIFEST).read_bytes())
        said = manifest.model_copy(update={"ids": (info, *manifest.ids)})
        (folder / INDEX_MANIFEST).write_text(said.model_dump_json())


def measure(count: int) -> dict[str, float]:
    """Measure one size, in this process."""
    spark = local_session(cores=2, memory="1g")
    work = data.folder() / f"large-index-{count}"
    subprocess.run(["rm", "-rf", work, f"{work}-landing"], check=True)
    uri = data.copy(data.base(lambda: spark, 100_000), work)
    StoreIndex(spark, HeldStore(uri)).save()
    with_keys(work, count)
    opened, looked_up = open_and_look_up(spark, HeldStore(uri))
    files = [data.records(BATCH, 100_000_000 + i * BATCH, i) for i in range(BATCHES)]
    batches = ingest_sides.store(spark, uri, files).batches
    own = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line)
    subprocess.run(["rm", "-rf", work, f"{work}-landing"], check=True)
    return {
        "open": opened,
        "look up": looked_up,
        "batch": statistics.median(batches[2:]),
        "memory": own / 1024,
    }


def open_and_look_up(spark: SparkSession, store: HeldStore) -> tuple[float, float]:
    """Seconds of opening a store's index, and of the first lookup of new ids in it."""
    begun = time.perf_counter()
    index = StoreIndex(spark, store)
    opened = time.perf_counter()
    asked = Hasher(index.key).keys([f"unknown-{n}" for n in range(BATCH)])
    before = time.perf_counter()
    assert not index.contains(asked, None).any()
    return opened - begun, time.perf_counter() - before


def side_of(module: str, count: int) -> dict[str, float]:
    """What a benchmark measures of one size; the keys are made before, by this process."""
    if count:
        keys(count)
    return in_fresh_process(module, "--side", str(count))


def main(sizes: list[int]) -> None:
    """Print the table."""
    table = Table("keys", "open, s", "100,000 new ids, s", "batch of 100,000, s", "over an empty index", "memory, MiB")
    least: float | None = None
    for count in sizes:
        found = side_of("tests.perf.large_index", count)
        least = least or found["batch"]
        figures = found["open"], found["look up"], found["batch"], found["batch"] / least, found["memory"]
        table.add_row(f"{count:,}", *(f"{figure:.2f}" for figure in figures))
    Console(width=140).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        sys.stdout.write(json.dumps(measure(int(sys.argv[2]))) + "\n")
    else:
        main([int(size) for size in sys.argv[1:]] or list(SIZES))
