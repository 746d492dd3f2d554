"""What an ingest asks of object storage: with nothing new, until it finds a new file, and with one, beside Spark.

``python -m tests.perf.idle_check``: into a store of 40 commits; the server is on loopback and counts by its access log.
"""

import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as Printed

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import check_for_work

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.ended import end_run, small_run
from support.objectstore import ENVIRONMENT, running_object_store
from support.stores import add_messages, make_store, message

COMMITS, RUNS, BUCKET = 40, 100, "perf"
_OPERATION = re.compile(r" s3_(\w+) ")


def main() -> None:
    """Measure and print."""
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-") as folder:
        work, log = Path(folder) / BUCKET, Path(folder) / "access.log"
        table = make_store(work / "store", [message(1)])
        for number in range(2, COMMITS + 1):
            add_messages(table.uri, [message(number)])
        with running_object_store(access_log=log) as server:
            server.make_bucket(BUCKET)
            server.upload(work, BUCKET)
            document = RunDocument(
                run="idle",
                resource=Resource(kind="MessageStream", namespace="shop", name="orders"),
                table=table.model_copy(update={"uri": f"s3a://{BUCKET}/store", "epoch": 1}),
                storage=(server.entry(BUCKET),),
                task=IngestTask(source_id="landing", source=FilesSource(uri=f"s3a://{BUCKET}/landing")),
            )
            end_run(document, Storage(document.storage))
            _print(document, log)
            server.put(f"{BUCKET}/landing/new.jsonl", b"{}")
            _print(document, log)
            _print_small_runs(document, log)


def _print(document: RunDocument, log: Path) -> None:
    table = Printed("seconds", "CPU-seconds", "requests", "by operation")
    for _ in range(5):
        _measure(table, log, lambda: check_for_work(document, lambda: datetime.now(UTC)))
    Console().print(table)


def _print_small_runs(document: RunDocument, log: Path) -> None:
    table = Printed("seconds", "CPU-seconds", "requests", "by operation")
    for number in range(RUNS):
        own = document.model_copy(update={"table": document.table.model_copy(update={"epoch": number + 2})})
        _measure(table, log, partial(small_run, own, Storage(own.storage), COMMITS + number))
    Console().print(table)


def _measure(table: Printed, log: Path, run: Callable[[], object]) -> None:
    before, started, used = log.stat().st_size, time.perf_counter(), time.process_time()
    run()
    spent = time.perf_counter() - started, time.process_time() - used
    requests = Counter(_OPERATION.findall(log.read_text()[before:]))
    table.add_row(*(f"{one:.2f}" for one in spent), str(requests.total()), ", ".join(map(str, requests.most_common())))


if __name__ == "__main__":
    main()
