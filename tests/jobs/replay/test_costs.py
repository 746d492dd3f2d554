"""What a chunk costs hangs on what it sends, and not on how many chunks there are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import IngestTask, ReplayTask, StreamDestination
from messagestore_core.contract.stores import Owner, Table
from messagestore_jobs.context import Run
from messagestore_jobs.progress import Silent
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.replay_costs import counting
from support.replays import replay_document
from support.stores import make_store, message


@pytest.fixture(autouse=True)
def two_messages_in_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 1)


def store_of(folder: Path, size: int) -> Table:
    """So many times two messages, each two in a file of their own."""
    return make_store(folder, *([message(n), message(n + 1)] for n in range(1, 2 * size, 2)))


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
