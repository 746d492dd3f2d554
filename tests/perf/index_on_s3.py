"""The index of ids on object storage: what a run costs, and what it asks of the storage.

``python -m tests.perf.index_on_s3 [KEYS ...]`` prints a table, each row of a process of its own. The S3 server runs on
this machine, as do Spark and the store's ingest; its access log has the requests.
"""

import json
import os
import re
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides
from tests.perf.large_index import BATCH, open_and_look_up, side_of, with_keys

from messagestore_core.store.fence import HeldStore
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.session import local_session, using

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

SIZES = (0, 10_000_000, 100_000_000)
BATCHES = 7
BUCKET = "perf"
_OPERATION = re.compile(r" s3_(\w+) ")


def measure(count: int) -> dict[str, float]:
    """Of one size, in this process."""
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        log = Path(work) / "access.log"
        with running_object_store(access_log=log) as server:
            return _measure(count, Path(work), server, log)


def _measure(count: int, work: Path, server: ObjectStore, log: Path) -> dict[str, float]:
    spark = local_session(cores=2, memory="1g")
    _upload(spark, count, work, server)
    with using([server.entry(BUCKET)], spark) as storage:
        store = HeldStore(f"s3a://{BUCKET}/store", storage)
        opened, looked_up = open_and_look_up(spark, store)
        size = log.stat().st_size
        timed = ingest_sides.store_from(spark, ingest_sides.document(store.uri, f"s3a://{BUCKET}/landing"), storage)
    requests = Counter(_OPERATION.findall(log.read_text()[size:]))
    return {
        "open": opened,
        "look up": looked_up,
        "opening": timed.opening,
        "first batch": timed.batches[0],
        "batch": statistics.median(timed.batches[2:]),
        "requests a batch": requests.total() / BATCHES,
        "of these GetObject": requests["GetObject"] / BATCHES,
    }


def _upload(spark: SparkSession, count: int, work: Path, server: ObjectStore) -> None:
    uri = data.copy(data.base(lambda: spark, 100_000), work / "store")
    StoreIndex(spark, HeldStore(uri)).save()
    with_keys(work / "store", count)
    (work / "landing").mkdir()
    for i in range(BATCHES):
        (work / "landing" / f"{i:03}.jsonl").hardlink_to(data.records(BATCH, 100_000_000 + i * BATCH, i))
    server.make_bucket(BUCKET)
    server.upload(work, BUCKET)


def main(sizes: list[int]) -> None:
    """Print the table."""
    table = Table("keys", "figures")
    for count in sizes:
        found = side_of("tests.perf.index_on_s3", count)
        table.add_row(f"{count:,}", ", ".join(f"{name}: {figure:,.2f}" for name, figure in found.items()))
    Console(width=160).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        sys.stdout.write(json.dumps(measure(int(sys.argv[2]))) + "\n")
    else:
        main([int(size) for size in sys.argv[1:]] or list(SIZES))
