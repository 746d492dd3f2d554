"""Status updates that arrive in a topic."""

from collections.abc import Callable
from datetime import timedelta

from messagestore_core.contract.ingest import Lifecycle, UpdateCounts
from messagestore_core.contract.records import KafkaSource
from messagestore_core.store.handle import Store
from messagestore_core.store.pending_updates import count_pending
from support.ingests import START, record
from support.kafkabroker import Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Topics
from support.lifecycles import update


def test_status_updates_come_from_a_topic(
    broker: Broker, topics: Topics, stream_of: Callable[..., KafkaStream]
) -> None:
    messages, told = topics.make(), topics.make()
    topics.send(messages, record("m1"), record("m2"))
    topics.send(told, update("m1", "FAILED", attempt=1), b"no update", update("late", "COMPLETED"))
    stream = stream_of(messages)
    source = KafkaSource(cluster=broker.cluster(), topics=(told,))
    lifecycle = Lifecycle(source_id="updates", source=source)

    report = stream.run(lifecycle=lifecycle).lifecycle
    assert (report.counts, report.pending) == (UpdateCounts(received=3, applied=1, dead_lettered=1), 1)
    assert [row["status"] for row in stream.messages()] == ["FAILED", "RECEIVED"]
    (letter,) = stream.dead_letters()
    assert letter["source"] == {"kind": "lifecycle", "uri": f"kafka:{told}", "partition": 0, "offset": 1}

    topics.send(messages, record("late"))
    topics.send(told, update("m1", "FAILED", attempt=1), update("m1", "PROCESSING", attempt=2))
    report = stream.run(START + timedelta(hours=1), lifecycle=lifecycle).lifecycle
    assert report.counts == UpdateCounts(received=2, applied=2, stale=1)
    assert [row["status"] for row in stream.messages()] == ["PROCESSING", "RECEIVED", "COMPLETED"]
    assert count_pending(Store(stream.table.uri)) == 0
    report = stream.run(START + timedelta(hours=2), lifecycle=lifecycle).lifecycle
    assert report.counts == UpdateCounts()
