"""The cost of a chunk depends on what it sends, not on the number of chunks."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.orders import BY_FAILURE, BY_SEQUENCE
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.long import few
from support.replay_costs import counting
from support.replays import Suspending, files_replay, replay_document
from support.stores import START, add_dead_letters, add_messages, make_store, message


@pytest.fixture(autouse=True)
def two_messages_in_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 1)


def store_of(folder: Path, size: int) -> Table:
    """``size`` times two messages of a sequence and two dead letters, each pair in its own file."""
    table = make_store(folder, [])
    for number in range(size):
        arrive(table, number)
    return table


def arrive(table: Table, number: int) -> None:
    add_messages(table.uri, [message(2 * number + i, sequence_id=f"s{number}", sequence_number=i) for i in (1, 2)])
    add_dead_letters(table.uri, [{"raw": bytes([i]), "failed_at": START + timedelta(number)} for i in (1, 2)])


@pytest.mark.long
def test_a_replay_opens_the_index_of_its_target_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store_of(tmp_path / "store", 4)
    target = Table(uri=f"file://{tmp_path}/target", owner=Owner(namespace="default", name="target"))
    ingest = IngestTask(source_id="own", source=FilesSource(uri="file:///nowhere"))
    task = ReplayTask(job_id="job-1", destination=StreamDestination(table=target, ingest=ingest))
    with counting(spark, monkeypatch) as costs:
        assert run_replay(Run.of(replay_document(table, task), spark, Silent()), costs).complete
    assert [cost["indexes"] for cost in costs.of_chunks] == [1, 0, 0, 0]
    first, *others = [cost["objects"] for cost in costs.of_chunks]
    assert len(set(others)) == 1
    assert others[0] < first


SELECTED: dict[str, dict[str, Any]] = {
    "by position": {"order": "Global"},
    "by sequence": {"order": "Sequence"},
    "dead letters": {"origin": "DeadLetters"},
}


@pytest.mark.parametrize("name", few(SELECTED, "by position"))
def test_a_chunk_reads_only_its_own_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    read: set[int] = set()
    for size in (3, 5):
        table = store_of(tmp_path / str(size), size)
        document = files_replay(table, tmp_path / f"out-{size}", **SELECTED[name])
        assert not run_replay(Run.of(document, spark, Silent()), Suspending(0)).complete
        # Spark does not have the frozen version open.
        arrive(table, size)
        with counting(spark, monkeypatch) as costs:
            assert run_replay(Run.of(document, spark, Silent()), costs).complete
        assert len(costs.of_chunks) == size
        # Spark reads the files' statistics, one entry per file, which it has in memory.
        read |= {cost["rows"] - size for cost in costs.of_chunks[1:-1]}
    assert len(read) == 1


ORDERS = {"by sequence": BY_SEQUENCE, "dead letters": BY_FAILURE}


@pytest.mark.parametrize("name", few(ORDERS, "by sequence"))
def test_file_statistics_exclude_no_row_of_a_range(spark: SparkSession, name: str) -> None:
    order = ORDERS[name]
    places = [(s, n, p) for p, (s, n) in enumerate(product(("", "a", "b", None), (1, 2, None)), 1)]
    rows = spark.createDataFrame(places, "sequence_id string, sequence_number bigint, global_position bigint")
    at = F.timestamp_micros(F.col("global_position") % 5)
    place = F.expr("named_struct('uri', sequence_id, 'partition', 1, 'offset', sequence_number) AS source")
    keyed = order.keyed(rows.select("*", at.alias("failed_at"), place, F.lit(b"x").alias("raw"))).cache()
    keys = [tuple(row) for row in keyed.select(*order.columns).orderBy(*order.columns).collect()]
    exact = replace(order, near=lambda _start, _end: [])
    ranges = [(start, end) for i, start in enumerate(keys) for end in [*keys[i + 1 :], None]]
    left_out = [F.count_if(exact.between(*s) & ~F.coalesce(order.between(*s), F.lit(False))) for s in ranges]
    assert set(keyed.agg(F.array(*left_out)).collect()[0][0]) == {0}
