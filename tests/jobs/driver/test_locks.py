"""An erasure and a replay out of the same store, in two processes of one machine: one waits, or says so."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.lock import REPLAYS_SUFFIX
from support.external_writes import observing
from support.locks import another_process
from support.purges import Said, erase_document, purge
from support.replays import AT, files_replay, sent
from support.stores import make_store, message


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [message(n) for n in range(3)])


def run(spark: SparkSession, document: RunDocument, wait: float = 0.3) -> tuple[RunReport, list[str]]:
    """A run, with all that it said and wrote."""
    said, writes = Said(), list[str]()
    with observing(lambda name, _: writes.append(name)):
        report = execute(document, lambda: spark, said, wait, lambda: AT)
    return report, [*said.lines, *writes]


def test_an_erasure_waits_for_replays_and_does_nothing_before(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    rule = Rule(name="one", match=Match(message_ids=("m1",)), erase=True)
    purge(spark, table, AT, rules=(rule,), erase_within=timedelta(0))
    with another_process(f"{tmp_path}/store{REPLAYS_SUFFIX}", "LOCK_SH"):
        report, heard = run(spark, erase_document(table, AT))
        assert report.error.reason == "TableBusy"
        assert report.error.message == f"a replay out of {table.uri} is under way; try again when it has ended"
        assert heard == [f"a replay out of {table.uri} is under way; waiting for it to end"]
        # Replays don't keep each other waiting.
        replayed, _ = run(spark, files_replay(table, tmp_path / "out"), 0)
        assert isinstance(replayed.outcome, ReplayOutcome)
        assert sent(tmp_path / "out") == [0, 2]
    with another_process(f"{tmp_path}/store{REPLAYS_SUFFIX}", "LOCK_SH") as replay:
        threading.Timer(0.5, replay.kill).start()
        report, _ = run(spark, erase_document(table, AT), 60)
    assert report.outcome.erased == 1


def test_a_replay_waits_for_an_erasure(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    with another_process(f"{tmp_path}/store{REPLAYS_SUFFIX}", "LOCK_EX"):
        report, heard = run(spark, files_replay(table, tmp_path / "out"))
        assert report.error.message == f"an erasure of {table.uri} is under way; try again when it has ended"
        assert heard == [f"an erasure of {table.uri} is under way; waiting for it to end"]
        assert not (tmp_path / "out").exists()


def test_a_replay_of_a_store_that_is_not_there_makes_no_lock(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    missing = table.model_copy(update={"uri": f"file://{tmp_path}/nowhere/store"})
    report, _ = run(spark, files_replay(missing, tmp_path / "out"))
    assert report.error is None
    assert not (tmp_path / "nowhere").exists()
