"""Subscriptions of complete sequences to topics of a real broker: what counts is how many transactions have sent."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import (
    KafkaDestination,
    ReplayTask,
    Reset,
    RunDocument,
    Selection,
    Sequences,
    StartPoint,
    Subscription,
)
from messagestore_core.contract.run_report import ReplayOutcome
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.job import run_replay
from support.external_writes import unheard
from support.kafkabroker import Broker
from support.kafkatopics import Topics
from support.purges import break_off
from support.replays import ROUND_CRASHES, replay_document
from support.stores import add_messages, make_store, message

BEGINNING = StartPoint(at="Beginning")


def part(position: int, sequence: str, number: int, size: int | None = None) -> dict[str, Any]:
    return message(position, sequence_id=sequence, sequence_number=number, sequence_size=size)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two of three members of p, and all five of q, the last first; a transaction has two records."""
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    of_q = [part(8 - n, "q", n, 5) for n in range(5, 0, -1)]
    return make_store(tmp_path / "store", [part(1, "p", 2, 3), part(2, "p", 1), *of_q])


def arrive(table: Table, *rows: dict[str, Any]) -> None:
    add_messages(table.uri, rows, next_global_position=rows[-1]["global_position"] + 1)


def complete_p(table: Table) -> None:
    arrive(table, part(8, "r", 1, 1), part(9, "p", 3))


def to_topic(
    table: Table, broker: Broker, topic: str, reset: Reset | None = None, run: str = "replay-1"
) -> RunDocument:
    destination = KafkaDestination(cluster=broker.cluster(), topic=topic)
    task = ReplayTask(
        job_id="job-1",
        subscription=Subscription(start=BEGINNING, reset=reset),
        select=Selection(sequences=Sequences(complete_only=True)),
        order="Sequence",
        destination=destination,
    )
    return replay_document(table, task, run)


def send(spark: SparkSession, document: RunDocument) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()))


def positions(topics: Topics, topic: str) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in topics.read(topic)]


def reached(outcome: ReplayOutcome) -> tuple[int, int, int]:
    return outcome.cursor.global_position, outcome.cursor.sent, outcome.cursor.waiting


OF_Q, OF_P_AND_R = [7, 6, 5, 4, 3], [2, 1, 9, 8]
"""What is sent, in order, if q is sent before p is complete."""


@pytest.mark.parametrize(
    ("name", "moment", "nth"),
    ROUND_CRASHES,
)
def test_killed_between_two_writes_it_sends_each_member_once(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, name: str, moment: str, nth: int
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    break_off(lambda: send(spark, document), name, moment, nth)
    complete_p(table)
    break_off(lambda: send(spark, document), name, moment, nth)
    assert reached(send(spark, document)) == (9, 9, 0)
    sent = positions(topics, topic)
    # What was killed before its round began sends all in one round.
    assert [*(at for at in sent if at in OF_Q), *(at for at in sent if at not in OF_Q)] == [*OF_Q, *OF_P_AND_R]


def test_whatever_answer_is_lost_it_sends_each_member_once(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    for _ in range(2):
        _, lost = unheard(lambda: send(spark, document))
        assert lost >= {"cursor", "replay-transaction", "replay-ended", "replay-forgotten"}
        if positions(topics, topic) == OF_Q:
            complete_p(table)
    assert positions(topics, topic) == [*OF_Q, *OF_P_AND_R]


def test_a_store_laid_back_from_a_copy_is_refused_until_a_reset(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    complete_p(table)
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    arrive(table, part(8, "s", 1, 1))
    with pytest.raises(RunFailedError, match="has been sent 9 records, the cursor says 5") as refused:
        send(spark, to_topic(table, broker, topic))
    assert refused.value.reason == "CursorAhead"
    reset = Reset(value="8", to=StartPoint(global_position=8))
    assert reached(send(spark, to_topic(table, broker, topic, reset, "replay-2"))) == (8, 6, 0)
    assert positions(topics, topic) == [*OF_Q, *OF_P_AND_R, 8]


def test_without_its_object_it_begins_again(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store" / "_cursors")
    send(spark, to_topic(table, broker, topic, run="replay-2"))
    assert positions(topics, topic) == [*OF_Q, *OF_Q]
