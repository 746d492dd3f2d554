"""Replays to topics of a real broker."""

import json
import os
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import KafkaCluster
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.context import Run
from messagestore_jobs.replay import chunks, kafka, sending
from messagestore_jobs.replay.chunks import Size, Staged
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source.kafka_listing import access
from support.crash import crash_run
from support.external_writes import observing, unheard
from support.kafkabroker import Broker, running_broker
from support.kafkatopics import Record, Topics
from support.long import few
from support.purges import erase, files_below, purge
from support.replay_costs import counting
from support.replays import AT, Crash, Suspending, replay_document
from support.stores import make_store, message
from support.waiting import scaled


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Thirty messages of three streams."""
    rows = [
        message(i, stream_name=f"order-{i % 3}", position=(i - 1) // 3, headers={"trace": f"t{i}"})
        for i in range(1, 31)
    ]
    return make_store(tmp_path / "store", rows)


def to_topic(table: Table, cluster: KafkaCluster, topic: str, **task: Any) -> RunDocument:
    key = {"key": task.pop("key")} if "key" in task else {}
    destination = KafkaDestination(cluster=cluster, topic=topic, **key)
    return replay_document(table, ReplayTask(**{"job_id": f"to-{topic}", **task, "destination": destination}))


def positions(records: list[Record]) -> list[int]:
    return [json.loads(record.value or b"")["globalPosition"] for record in records]


def test_brokers_that_allow_only_short_transactions_are_told_apart_from_those_that_do_not_answer(
    spark: SparkSession, table: Table
) -> None:
    with running_broker("transaction.max.timeout.ms=30000\n") as broker:
        topic = Topics(spark, broker).make()
        with pytest.raises(RunFailedError, match=r"set their transaction\.max\.timeout\.ms to at least") as refused:
            run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()))
    assert refused.value.reason == "TopicUnfit"


def test_records_are_native_and_each_stream_stays_in_order(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make(partitions=3)
    document = to_topic(table, broker.cluster(), topic, mark_headers={"x-replay": "{job} {position}"})
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed) == (True, 30)
    sent = topics.read(topic)
    assert sorted(positions(sent)) == list(range(1, 31))
    streams: dict[str, list[Record]] = {}
    for record in sent:
        streams.setdefault((record.key or b"").decode(), []).append(record)
    assert sorted(streams) == ["order-0", "order-1", "order-2"]
    for name, records in streams.items():
        assert len({record.partition for record in records}) == 1
        assert [json.loads(record.value or b"")["position"] for record in records] == list(range(10))
        assert all(json.loads(record.value or b"")["streamName"] == name for record in records)
    first = next(record for record in sent if positions([record]) == [1])
    assert first.headers == {"trace": b"t1", "x-replay": f"to-{topic} 0".encode()}
    assert run_replay(Run.of(document, spark, Silent())) == outcome
    assert len(topics.read(topic)) == 30


def test_a_suspended_replay_to_a_topic_continues_where_it_stopped(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    topic = topics.make()
    document = to_topic(table, broker.secured(tls=True), topic, order="Global", key="messageId")
    suspended = run_replay(Run.of(document, spark, Silent()), Suspending(0))
    assert (suspended.complete, topics.read(topic)) == (False, [])
    assert run_replay(Run.of(document, spark, Silent())).complete
    assert positions(topics.read(topic)) == list(range(1, 31))


@pytest.mark.parametrize("by", few(["certificate", "token"], "certificate"))
def test_a_replay_is_known_by_a_certificate_or_a_token(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, by: str
) -> None:
    topic = topics.make()
    cluster = broker.by_certificate() if by == "certificate" else broker.by_token()
    assert run_replay(Run.of(to_topic(table, cluster, topic, order="Global"), spark, Silent())).complete
    assert positions(topics.read(topic)) == list(range(1, 31))


@pytest.mark.long
def test_a_topic_that_is_made_again_while_a_replay_pauses_gets_no_part_of_it(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 1)
    topic = topics.make()
    document = to_topic(table, broker.cluster(), topic)
    before = run_replay(Run.of(document, spark, Silent()), Suspending(2)).progress.replayed
    assert 0 < before < 30
    topics.delete(topic)
    topics.make(topic)
    for _ in range(2):
        with pytest.raises(RunFailedError, match=f"at least {before} of 30 records went to the topic") as refused:
            run_replay(Run.of(document, spark, Silent()))
        assert refused.value.reason == "TopicReplaced"
    assert topics.read(topic) == []
    other = to_topic(table, broker.cluster(), topic, job_id="another")
    assert run_replay(Run.of(other, spark, Silent())).complete
    assert len(topics.read(topic)) == 30


def test_a_topic_that_is_made_again_while_a_replay_runs_does_not_make_it_complete(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table
) -> None:
    topic = topics.make()

    def made_again(name: str, moment: str) -> None:
        if (name, moment) == ("replay-staged-removed", "after"):
            topics.delete(topic)
            topics.make(topic)

    with observing(made_again), pytest.raises(RunFailedError, match="at least 30 of 30 records"):
        run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()))


@pytest.mark.long
def test_a_chunk_reads_no_other_chunk(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 1)
    topic = topics.make()
    with counting(spark, monkeypatch) as costs:
        assert run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()), costs).complete
    assert len(costs.of_chunks) > 10
    read = [cost["objects"] for cost in costs.of_chunks[1:]]
    assert read == [read[0]] * len(read)


KILLS = [("replay-transaction", "within", 2), ("replay-staged-removed", "before", 1)]
KILLED = {"once": KILLS[1:], "again and again": KILLS}


@pytest.mark.parametrize("how", few(KILLED, "once"))
def test_a_replay_to_a_topic_that_is_killed_repeatedly_sends_each_message_once_and_in_order(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, how: str
) -> None:
    topic = topics.make()
    document = to_topic(table, broker.cluster(), topic, order="Global", messages_per_second=4)
    for name, moment, nth in KILLED[how]:
        crash_run(spark, document, name, moment, nth)
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed) == (True, 30)
    assert positions(topics.read(topic)) == list(range(1, 31))


def test_a_replay_to_a_topic_sends_each_message_once_and_in_order_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    topic = topics.make()
    document = to_topic(table, broker.cluster(), topic, order="Global")
    outcome, lost = unheard(lambda: run_replay(Run.of(document, spark, Silent())))
    assert lost >= {"replay-transaction", "replay-staged-removed", "replay-ended"}
    assert (outcome.complete, outcome.progress.replayed) == (True, 30)
    assert positions(topics.read(topic)) == list(range(1, 31))


@pytest.mark.long
def test_a_message_that_is_erased_before_its_transaction_is_not_sent_whichever_answer_is_lost(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    topic = topics.make()
    document = to_topic(table, broker.cluster(), topic, order="Global")

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "after"):
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    rule = Rule(name="erased", match=Match(message_ids=("m2", "m7")), erase=True)
    purge(spark, table, AT, rules=(rule,), erase_within=timedelta(0))
    _, lost = unheard(lambda: erase(spark, table, AT))
    assert "erase-staged" in lost
    staged = b"".join(content for name, content in files_below(table.uri).items() if "/staging/" in name)
    assert b'"m3"' in staged
    assert b'"m2"' not in staged
    assert b'"m7"' not in staged
    outcome, _ = unheard(lambda: run_replay(Run.of(document, spark, Silent())))
    assert positions(topics.read(topic)) == [n for n in range(1, 31) if n != 7]
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.erased) == (True, 29, 1)


def test_a_transaction_that_holds_what_was_erased_meanwhile_is_not_committed(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    topic = topics.make()
    document = to_topic(table, broker.cluster(), topic, order="Global")
    begun = count(1)

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "before") and next(begun) == 2:
            # Of the transaction before, of this one, and of a later one.
            add_tombstones(HeldStore(table.uri), [("m3", 3), ("m6", 6), ("m20", 20)], AT, "purge-1")

    with observing(observer):
        outcome = run_replay(Run.of(document, spark, Silent()))
    assert positions(topics.read(topic)) == [n for n in range(1, 31) if n not in (6, 20)]
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.erased) == (True, 28, 2)


def test_a_topic_that_is_not_there_or_takes_no_large_records_is_named(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    table = make_store(tmp_path / "store", [message(1), message(2, payload=os.urandom(300_000)), message(3)])
    with pytest.raises(RunFailedError, match="there is no topic nowhere") as missing:
        run_replay(Run.of(to_topic(table, broker.cluster(), "nowhere"), spark, Silent()))
    assert missing.value.reason == "TopicMissing"
    small = topics.make(max_message_bytes="100000")
    with pytest.raises(RunFailedError, match=f"topic {small} takes no record as large") as large:
        run_replay(Run.of(to_topic(table, broker.cluster(), small), spark, Silent()))
    assert large.value.reason == "RecordTooLarge"
    assert topics.read(small) == []
    assert not any(name.endswith(f"producer-messagestore-to-{small}") for name in threads(spark))
    compacted = topics.make(cleanup_policy="compact")
    with pytest.raises(RunFailedError, match=f"topic {compacted} refuses a record") as unfit:
        run_replay(Run.of(to_topic(table, broker.cluster(), compacted, key="correlationId"), spark, Silent()))
    assert unfit.value.reason == "TopicUnfit"


def test_a_sender_is_closed_when_a_later_chunk_can_not_be_staged(
    spark: SparkSession, topics: Topics, broker: Broker, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "chunk_size", lambda rate, cores: Size(20, 1 << 30))
    stage, staged = sending.stage, count()

    def second_fails(*given: Any, **more: Any) -> Staged:
        if next(staged):
            raise OSError("the disk is full")
        return stage(*given, **more)

    monkeypatch.setattr(sending, "stage", second_fails)
    topic = topics.make()
    with pytest.raises(OSError, match="the disk is full"):
        run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()))
    assert len(topics.read(topic)) > 0
    assert not any(name.endswith(f"producer-messagestore-to-{topic}") for name in threads(spark))
    monkeypatch.setattr(sending, "stage", stage)
    assert run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent())).progress.replayed == 30


def test_a_record_that_no_topic_would_get_is_not_told_of_the_topic(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    table = make_store(tmp_path / "store", [message(1, payload=b'"%s"' % (b"a" * (64 << 20)))])
    topic = topics.make(max_message_bytes=str(128 << 20))
    with pytest.raises(RunFailedError, match="has more than the 64 MiB that a replay holds") as large:
        run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()))
    assert (large.value.reason, "max.message.bytes" in str(large.value)) == ("RecordTooLarge", False)


def threads(spark: SparkSession) -> list[str]:
    """The names of all threads of the JVM."""
    return [thread.getName() for thread in spark._jvm.java.lang.Thread.getAllStackTraces().keySet()]


def begun(spark: SparkSession, broker: Broker, topic: str) -> Any:
    """A sender with a transaction that is neither committed nor aborted."""
    cluster = json.dumps(access(broker.cluster()))
    sender = spark._jvm.dev.messagestore.spark.KafkaSender(cluster, topic, None, "messageId", topic, topic, False)
    sender.readOn(b'{"messageId":"m1","globalPosition":1}')
    sender.send(1)
    return sender


@contextmanager
def away(broker: Broker) -> Iterator[None]:
    """No broker while the block lasts."""
    broker.kill()
    try:
        yield
    finally:
        broker.start()


def test_a_sender_ends_though_its_brokers_are_away(spark: SparkSession, topics: Topics, broker: Broker) -> None:
    sender = begun(spark, broker, topics.make())
    closing = InheritableThread(target=sender.close)
    with away(broker):
        closing.start()
        closing.join(scaled(60))
        waits = closing.is_alive()
    closing.join()
    assert not waits


@pytest.mark.long
def test_a_commit_without_an_answer_is_told_as_that(spark: SparkSession, topics: Topics, broker: Broker) -> None:
    sender = begun(spark, broker, topics.make())
    with away(broker), pytest.raises(Py4JJavaError, match="TimeoutException"):
        sender.commit()
    sender.close()


def test_a_payload_may_have_long_numbers_and_names_and_be_nested_deeply(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    payloads = [b'{"n":%s}' % (b"1" * 1_001), b'{"%s":1}' % (b"a" * 60_000), b"[" * 1_000 + b"]" * 1_000]
    table = make_store(tmp_path / "store", [message(n, payload=content) for n, content in enumerate(payloads, 1)])
    topic = topics.make()
    assert run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent())).complete
    assert [payload_of(record) for record in topics.read(topic)] == payloads


def test_a_transaction_ends_early_behind_large_records(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    payload, transactions = b'"%s"' % (b"a" * (20 << 20)), list[str]()

    def note(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "after"):
            transactions.append(name)

    table = make_store(tmp_path / "store", [message(n, payload=payload) for n in (1, 2, 3)])
    topic = topics.make()
    with observing(note):
        run_replay(Run.of(to_topic(table, broker.cluster(), topic), spark, Silent()))
    assert sorted(positions(topics.read(topic))) == [1, 2, 3]
    assert len(transactions) == 2


def payload_of(record: Record) -> bytes:
    """The exact bytes of the payload in a Native record."""
    value = record.value or b""
    in_base64 = json.loads(value).get("payloadBase64")
    return b64decode(in_base64) if in_base64 else value.partition(b',"payload":')[2][:-1]
