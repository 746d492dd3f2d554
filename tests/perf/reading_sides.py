"""The sides of the benchmarks that read: one stream, a category, a purge, a replay."""

import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.perf import data

from messagestore.reader import Reader
from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.purge import Match, PurgeTask, Rule
from messagestore_core.contract.replay import Interval, ReplayTask, Selection
from messagestore_core.progress import Silent
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.native import to_native
from messagestore_jobs.purge.job import run_purge
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.rows.messages import read_messages
from messagestore_jobs.session import local_session

Figures = dict[str, Any]
HELD = 10_000_000
HELD_BY_READER = 1_000_000
READS = 20
REPLAYED = 2_000_000


def _session() -> SparkSession:
    return local_session(cores=2, memory="6g")


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _to_nothing(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def read(side: str, arguments: Figures) -> Figures:
    """Read all columns of the messages of one stream, or of all.

    Reads of the same size warm the process up: of ten other streams, or of everything once, which takes longer.
    """
    spark = _session()
    small, large = f"file://{data.base(_session, 100_000)}", f"file://{data.maintained(_session, HELD)}"

    def rows(uri: str, stream: str = data.SPECIAL) -> DataFrame:
        messages = read_messages(spark, Store(uri))
        return messages.where(F.col("stream_name") == stream) if side == "stream" else messages

    for _ in range(3):
        _to_nothing(rows(small))
    for number in range(10 if side == "stream" else 1):
        _to_nothing(rows(large, f"account-{number}"))
    return {"seconds": _timed(lambda: _to_nothing(rows(large)))}


def category(side: str, arguments: Figures) -> Figures:
    """Read pages of a thousand messages of a category, from positions all over a million, without Spark."""
    store = data.base(_session, HELD_BY_READER)
    start = time.perf_counter()
    reader = Reader(str(store))
    opening = time.perf_counter() - start
    table = DeltaTable(store / "messages")

    def read(position: int) -> int:
        if side == "reader":
            return sum(1 for _ in reader.get_category_messages("account", position))
        if side == "member":
            group = {"consumer_group_member": 1, "consumer_group_size": 3}
            return sum(1 for _ in reader.get_category_messages("account", position, **group))
        wanted = (pc.field("category") == "account") & (pc.field("global_position") >= position)
        rows = table.to_pyarrow_dataset().to_table(filter=wanted)
        return int(rows.sort_by("global_position").slice(0, 1000).num_rows)

    places = [1 + i * (HELD_BY_READER - 10_000) // READS for i in range(READS)]
    seconds = [_timed(partial(_expect, 1000, read, place)) for place in places]
    return {"seconds": statistics.median(seconds), "first": seconds[0], "slowest": max(seconds), "opening": opening}


def _expect(wanted: int, read: Callable[[int], int], position: int) -> None:
    found = read(position)
    assert found == wanted, f"{found} messages were read, not {wanted}"


def purge(side: str, arguments: Figures) -> Figures:
    """Purge the oldest day by age, or rewrite every row."""
    spark = _session()
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    small = data.copy(data.base(_session, 100_000), work / "warm")
    large = data.copy(data.base(_session, HELD), work / "store")

    def run(uri: str) -> None:
        if side == "rewrite":
            read_messages(spark, Store(uri)).write.format("delta").mode("overwrite").save(f"{uri}/messages")
        else:
            at = datetime(2026, 10, 2, tzinfo=UTC) + timedelta(days=30)
            rule = Rule(name="old", max_age=timedelta(days=30))
            run_purge(Run.of(data.document(uri, PurgeTask(mode="Enforce", rules=(rule,)), at), spark, Silent()))

    run(small)
    seconds = _timed(lambda: run(large))
    left = read_messages(spark, Store(large)).count()
    shutil.rmtree(work)
    expected = HELD if side == "rewrite" else HELD - HELD // data.DAYS
    assert left == expected, f"{left} messages are left of {HELD}"
    return {"seconds": seconds, "left": left}


def purge_all(side: str, arguments: Figures) -> Figures:
    """Purge all days by age, with or without their ids, or all but one in 4,096 messages row by row."""
    spark = _session()
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    match = Match(where="correlation_id NOT LIKE '000%'") if side == "rows" else None
    rule = Rule(name="all", max_age=timedelta(days=1), match=match)
    remembered = timedelta(days=30) if side == "remembered" else None

    def run(held: int) -> float:
        uri = data.copy(data.base(_session, held), work / str(held))
        document = data.document(uri, PurgeTask(mode="Enforce", rules=(rule,)), datetime(2026, 11, 1, tzinfo=UTC))
        table = document.table.model_copy(update={"remember_purged": remembered})
        open_folder(HeldStore.of(table, Storage()))
        return _timed(lambda: run_purge(Run.of(document.model_copy(update={"table": table}), spark, Silent())))

    run(100_000)
    seconds, store = run(HELD), HeldStore(f"file://{work}/{HELD}", remember_purged=remembered)
    kept = store.table(REMEMBERED).count() if remembered else 0
    assert kept == (HELD if remembered else 0), f"{kept} ids are remembered"
    figures = {"seconds": seconds, "index afterwards": _timed(lambda: StoreIndex(spark, store))}
    shutil.rmtree(work)
    return figures


def replay(side: str, arguments: Figures) -> Figures:
    """Replay a part of the store to files, in order; or sort and write the same rows with Spark."""
    spark = _session()
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    small, large = (f"file://{data.base(_session, n)}" for n in (100_000, HELD))

    def run(uri: str, to: Path, messages: int) -> None:
        if side == "plain":
            rows = read_messages(spark, Store(uri)).where(F.col("global_position") <= messages)
            to_native(rows.orderBy("global_position")).write.text(str(to))
            return
        task = ReplayTask(
            job_id=to.name,
            select=Selection(global_positions=Interval(to=messages)),
            order="Global",
            destination=FilesDestination(uri=f"file://{to}"),
        )
        run_replay(Run.of(data.document(uri, task, datetime.now(UTC)), spark, Silent()), None)

    run(small, work / "warm", 100_000)
    seconds = _timed(lambda: run(large, work / "measured", REPLAYED))
    figures = {"seconds": seconds, "lines": _lines(work / "measured")}
    shutil.rmtree(work)
    return figures


def _lines(folder: Path) -> str:
    """A digest of all lines in the order of the objects' names."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("part-*")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def same_lines(figures: dict[str, Figures]) -> str:
    """Check that both sides wrote the same lines in the same order."""
    if len({f["lines"] for f in figures.values()}) != 1:
        raise AssertionError(f"the sides did not write the same lines: {figures}")
    return "same lines in the same order"
