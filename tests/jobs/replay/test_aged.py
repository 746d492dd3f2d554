"""A replay that was paused for longer than tables keep old versions still sends its frozen selection."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.replay import Selection
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks
from messagestore_jobs.replay.job import run_replay
from support.long import few
from support.maintenance import age, maintain
from support.purges import purge
from support.replays import AT, Suspending, files_replay, sent
from support.stores import START, Row, make_store, message


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)


def grow_old(table: Table) -> None:
    """Wait until files of earlier versions may be deleted: here a second."""
    messages = DeltaTable(table.uri.removeprefix("file://") + "/messages")
    messages.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 seconds"})
    time.sleep(1.5)


def ten() -> list[Row]:
    return [message(i, stream_name=f"order-{i % 3}", position=i // 3) for i in range(1, 11)]


SELECTIONS: dict[str, dict[str, Any]] = {
    "lasting": {},
    "listed": {"select": Selection(statuses=("RECEIVED",))},
}


@pytest.mark.parametrize("name", few(SELECTIONS, "listed"))
def test_a_message_that_is_purged_during_a_replay_is_sent_as_it_was_frozen(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table = make_store(tmp_path / "store", ten())
    document = files_replay(table, tmp_path / "out", **SELECTIONS[name])
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    purge(spark, table, START + timedelta(days=1), rules=(Rule(name="some", match=Match(message_ids=("m6", "m7"))),))
    grow_old(table)

    outcome = run_replay(Run.of(document, spark, Silent()))

    assert sent(tmp_path / "out") == list(range(1, 11))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.failed) == (True, 10, 0)


@pytest.mark.long
def test_claim_checks_of_purged_messages_are_kept_for_an_unfinished_replay(spark: SparkSession, tmp_path: Path) -> None:
    payloads = Objects(f"file://{tmp_path}/store/payloads", Storage())
    rows = [row | {"payload": None, "payload_uri": f"{payloads.uri}/{row['global_position']:020}"} for row in ten()]
    table = make_store(tmp_path / "store", rows)
    for n in range(1, 11):
        payloads.write(f"{n:020}", b'{"n":%d}' % n)
    document = files_replay(table, tmp_path / "out")
    run_replay(Run.of(document, spark, Silent()), Suspending(1))
    purge(spark, table, START + timedelta(days=1), rules=(Rule(name="some", match=Match(message_ids=("m6", "m7"))),))
    age(tmp_path / "store" / "payloads", timedelta(days=60))
    maintain(spark, table, deleted_file_retention=timedelta(0), oldest_replay=AT)

    outcome = run_replay(Run.of(document, spark, Silent()))

    assert sent(tmp_path / "out") == list(range(1, 11))
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.failed) == (True, 10, 0)
    maintain(spark, table, deleted_file_retention=timedelta(0))
    assert len(payloads.names()) == 8
