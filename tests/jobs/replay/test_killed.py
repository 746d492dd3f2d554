"""SIGKILL of a replay and its JVM: the next run continues, and the output is that of an uninterrupted run."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.crash import crash_run
from support.long import few
from support.replays import files_replay, manifest, objects, sent
from support.stores import make_store, message

KILLS = [
    ("replay-frozen", "after"),
    ("replay-object", "within"),
    ("replay-object", "after"),
    ("replay-ending", "after"),
    ("replay-manifest", "before"),
    ("replay-manifest", "after"),
]


KILLED = {"once": KILLS[1:2], "again and again": KILLS}


@pytest.mark.parametrize("how", few(KILLED, "once"))
def test_a_replay_to_files_that_is_killed_repeatedly_sends_each_message_once_and_in_order(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    rows = [message(i, stream_name=f"order-{i % 3}", position=i // 3) for i in range(1, 11)]
    table = make_store(tmp_path / "store", rows)
    run_replay(Run.of(files_replay(table, tmp_path / "whole", order="Global", job_id="whole"), spark, Silent()))
    document = files_replay(table, tmp_path / "out", order="Global")
    for name, moment in KILLED[how]:
        crash_run(spark, document, name, moment)
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert outcome.complete
    assert outcome.progress.replayed == 10
    assert sent(tmp_path / "out") == list(range(1, 11))
    assert list(objects(tmp_path / "out").values()) == list(objects(tmp_path / "whole").values())
    assert manifest(tmp_path / "out")["objects"] == manifest(tmp_path / "whole")["objects"]
