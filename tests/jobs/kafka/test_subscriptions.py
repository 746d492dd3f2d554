"""Subscriptions to topics of a real broker: what counts is what transactions have committed."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Reset, StartPoint, Subscription
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.job import run_replay
from support.external_writes import unheard
from support.kafkabroker import Broker
from support.kafkatopics import Record, Topics
from support.long import few
from support.purges import break_off
from support.replays import AT, ROUND_CRASHES, replay_document
from support.stores import add_messages, make_store, message

BEGINNING = StartPoint(at="Beginning")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Ten messages; a transaction has four records."""
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    return make_store(tmp_path / "store", [message(n) for n in range(1, 11)])


def arrive(table: Table, *positions: int) -> None:
    add_messages(table.uri, [message(n) for n in positions], next_global_position=max(positions) + 1)


def to_topic(table: Table, broker: Broker, topic: str, reset: Reset | None = None) -> RunDocument:
    destination = KafkaDestination(cluster=broker.cluster(), topic=topic)
    subscription = Subscription(start=BEGINNING, reset=reset)
    return replay_document(table, ReplayTask(job_id="job-1", subscription=subscription, destination=destination))


def send(spark: SparkSession, document: RunDocument) -> ReplayOutcome:
    return run_replay(Run.of(document, spark, Silent()))


def positions(records: list[Record]) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in records]


def reached(outcome: ReplayOutcome) -> tuple[int, int]:
    return outcome.cursor.global_position, outcome.cursor.sent


def test_each_round_sends_what_came_behind_the_cursor(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make(partitions=2)
    document = to_topic(table, broker, topic)
    assert reached(send(spark, document)) == (10, 10)
    assert reached(send(spark, document)) == (10, 10)
    arrive(table, 11, 13)
    assert reached(send(spark, document)) == (13, 12)
    assert sorted(positions(topics.read(topic))) == [*range(1, 12), 13]


# The next test breaks off after each write.
@pytest.mark.parametrize(("name", "moment", "nth"), few(ROUND_CRASHES, ("cursor", "before", 2)))
def test_a_subscription_that_is_killed_between_two_writes_sends_each_message_once(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, name: str, moment: str, nth: int
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    break_off(lambda: send(spark, document), name, moment, nth)
    arrive(table, 11)
    send(spark, document)
    assert positions(topics.read(topic)) == list(range(1, 12))


def test_a_subscription_sends_each_message_once_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    document = to_topic(table, broker, topic)
    _, lost = unheard(lambda: send(spark, document))
    assert lost >= {"cursor", "replay-transaction", "replay-ended", "replay-forgotten"}
    assert positions(topics.read(topic)) == list(range(1, 11))


def test_a_subscription_that_lost_its_cursor_continues_after_the_last_transaction(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store" / "_cursors")
    arrive(table, 11)
    send(spark, to_topic(table, broker, topic))
    assert positions(topics.read(topic)) == list(range(1, 12))


def test_a_store_laid_back_from_a_copy_is_refused_until_a_reset(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, tmp_path: Path
) -> None:
    topic = topics.make()
    send(spark, to_topic(table, broker, topic))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    arrive(table, 11)
    send(spark, to_topic(table, broker, topic))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    arrive(table, 11, 12)
    with pytest.raises(RunFailedError, match="records up to global position 11, the cursor is at 10") as refused:
        send(spark, to_topic(table, broker, topic))
    assert refused.value.reason == "CursorAhead"
    back = Reset(value="11", to=StartPoint(global_position=11))
    for _ in range(2):
        send(spark, to_topic(table, broker, topic, back))
    assert positions(topics.read(topic)) == [*range(1, 12), 11, 12]


def test_a_message_that_is_erased_before_its_transaction_is_not_sent(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()
    begun = 0

    def observer(name: str, moment: str) -> None:
        nonlocal begun
        if (name, moment) == ("replay-transaction", "before"):
            begun += 1
            if begun == 2:
                # Of the transaction before, of this one, and of a later one.
                add_tombstones(HeldStore(table.uri), [("m3", 3), ("m6", 6), ("m10", 10)], AT, "purge-1")

    with observing(observer):
        outcome = send(spark, to_topic(table, broker, topic))
    assert positions(topics.read(topic)) == [n for n in range(1, 11) if n not in (6, 10)]
    assert (outcome.progress.replayed, outcome.progress.erased) == (8, 2)
