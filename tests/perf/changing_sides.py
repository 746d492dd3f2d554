"""The sides of the benchmarks that change scattered messages, and what rewriting the touched files costs."""

import hashlib
import json
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.perf import data

from messagestore_core.contract.ingest import IngestTask, Lifecycle
from messagestore_core.contract.purge import EraseTask, Match, PurgeTask, Rule
from messagestore_core.contract.records import Envelope, FilesSource
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.purge.erase import run_erase
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.rows.messages import read_messages
from messagestore_jobs.session import local_session

Figures = dict[str, Any]
HELD = 10_000_000
UPDATES = 10_000
_AT = datetime(2026, 11, 1, tzinfo=UTC)
_ONE_IN_A_HUNDRED = " OR ".join(f"correlation_id LIKE '{start}%'" for start in ("00", "01", "02"))


def change(side: str, arguments: Figures) -> Figures:
    """Change some messages of a store, in a process that changed a small store before.

    Side ``rewrite`` reads all rows of the last ``days`` days and writes them to another table.
    """
    spark = local_session(cores=2, memory="6g")
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    seconds = [_change(spark, work / str(held), held, side, arguments) for held in (100_000, HELD)]
    shutil.rmtree(work)
    return {"seconds": seconds[-1]}


def _change(spark: SparkSession, work: Path, held: int, side: str, arguments: Figures) -> float:
    uri = data.copy(data.base(lambda: spark, held), work / "store")
    if side == "updates":
        _land_updates(work / "updates", held)
    run = {"purge": _purge, "erase": _erase, "updates": _update, "rewrite": _rewrite}[side]
    begun = time.perf_counter()
    changed = run(spark, uri, arguments)
    seconds = time.perf_counter() - begun
    assert changed >= min(UPDATES, held // 200), f"only {changed} messages were changed"
    return seconds


def _purge(spark: SparkSession, uri: str, arguments: Figures) -> int:
    rule = Rule(name="one in a hundred", match=Match(where=_ONE_IN_A_HUNDRED))
    return _purged(spark, uri, PurgeTask(mode="Enforce", rules=(rule,)))


def _erase(spark: SparkSession, uri: str, arguments: Figures) -> int:
    rule = Rule(name="one in a hundred", match=Match(where=_ONE_IN_A_HUNDRED), erase=True)
    purged = _purged(spark, uri, PurgeTask(mode="Enforce", rules=(rule,), erase_within=timedelta(0)))
    run_erase(Run.of(data.document(uri, EraseTask(), _AT), spark, Silent()))
    return purged


def _purged(spark: SparkSession, uri: str, task: PurgeTask) -> int:
    outcome = run_purge(Run.of(data.document(uri, task, _AT), spark, Silent()))
    return outcome.purge.purged


def _update(spark: SparkSession, uri: str, arguments: Figures) -> int:
    work = uri.removesuffix("/store")
    task = IngestTask(
        source_id="perf",
        source=FilesSource(uri=f"{work}/nothing"),
        envelope=Envelope(format="Native"),
        lifecycle=Lifecycle(source_id="updates", source=FilesSource(uri=f"{work}/updates")),
    )
    outcome = run_ingest(Run.of(data.document(uri, task, _AT), spark, Silent()))
    return outcome.lifecycle.counts.applied


def _land_updates(folder: Path, held: int) -> None:
    """Updates of messages all over the last day."""
    folder.mkdir(parents=True)
    day = held // data.DAYS
    count = min(UPDATES, day)
    with (folder / "0.jsonl").open("w") as file:
        for number in range(held - day, held, day // count):
            digest = hashlib.md5(f"m{number}".encode(), usedforsecurity=False).hexdigest()
            parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:])
            file.write(json.dumps({"messageId": "-".join(parts), "status": "COMPLETED"}) + "\n")


def _rewrite(spark: SparkSession, uri: str, arguments: Figures) -> int:
    first = _AT.replace(month=10) + timedelta(days=data.DAYS - arguments["days"])
    rows = read_messages(spark, Store(uri)).where(F.col("inserted_date") >= F.lit(first.date()))
    rows.write.format("delta").partitionBy("inserted_date").save(f"{uri}/rewritten")
    return table_state(Store(uri)).messages
