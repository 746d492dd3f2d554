"""What a user of Kafka must be allowed, with brokers that check it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination, TopicFrom
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.progress import Silent
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.offsets import generations_of
from messagestore_core.store.topics import noted_groups
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.kafkabroker import BOUND, BOUND_USER, Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Topics
from support.replays import replay_document
from support.stores import make_store, message


def lacks(run: Callable[[], Any]) -> str:
    """The kind of resource on which the user lacks an ACL, as a run's failure has it."""
    with pytest.raises(RunFailedError) as failure:
        run()
    assert failure.value.reason == "KafkaDenied"
    said = re.search(r"know the user, but it lacks an ACL on ([a-z ]+): docs/kafka.md lists", str(failure.value))
    assert said, failure.value
    return said[1]


def test_a_reader_needs_describe_and_read_on_the_topic_and_describe_on_its_groups(
    topics: Topics, stream_of: Callable[..., KafkaStream], broker: Broker
) -> None:
    topic = topics.make()
    topics.send(topic, json.dumps({"messageId": "m-1", "streamName": "a-1"}).encode())
    topics.commit(f"{topic}-billing", topic, {0: 1})
    stream = stream_of(topic, cluster=broker.secured(BOUND_USER), keep_record=True, keep_groups=(f"{topic}-*",))
    assert lacks(stream.run) == "a topic"
    topics.allow(BOUND, ("TOPIC", topic, "DESCRIBE"))
    with pytest.raises(RunFailedError, match=rf"an ACL on a topic: .*\[{topic}\]"):
        stream.run()
    topics.allow(BOUND, ("TOPIC", topic, "READ"))
    stream.run()
    assert (len(stream.messages()), noted(stream, topic)) == (1, set())
    topics.allow(BOUND, ("GROUP", f"{topic}-*", "DESCRIBE"))
    stream.run()
    assert noted(stream, topic) == {f"{topic}-billing"}


def noted(stream: KafkaStream, topic: str) -> set[str]:
    """The groups whose offsets the store has."""
    store = HeldStore(stream.table.uri)
    return set(noted_groups(store, topic, generations_of(store, topic)))


def test_a_sender_needs_write_and_read_on_the_topic_write_on_its_transactional_id_and_read_on_its_group(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path
) -> None:
    topic, name = topics.make(), "messagestore-to-bob"
    to = KafkaDestination(cluster=broker.secured(BOUND_USER), topic=topic)
    table = make_store(tmp_path / "store", [message(1), message(2)])
    document = replay_document(table, ReplayTask(job_id="to-bob", destination=to))
    steps = {
        ("TOPIC", topic, "DESCRIBE"): "a topic",
        ("TRANSACTIONAL_ID", name, "DESCRIBE"): "a transactional id",
        ("TRANSACTIONAL_ID", name, "WRITE"): "a transactional id",
        ("GROUP", f"{name}-*", "DESCRIBE"): "a consumer group",
        ("TOPIC", topic, "WRITE"): "a topic",
        ("GROUP", f"{name}-*", "READ"): "a consumer group",
        ("TOPIC", topic, "READ"): "a topic",
    }
    for acl, kind in steps.items():
        assert lacks(lambda: run_replay(Run.of(document, spark, Silent()))) == kind
        topics.allow(BOUND, acl)
    assert run_replay(Run.of(document, spark, Silent())).complete
    assert len(topics.read(topic)) == 2


@pytest.mark.parametrize("acl", ["WRITE", "READ"])
def test_a_topic_that_a_message_names_is_refused_if_the_user_lacks_write_or_read(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, acl: str
) -> None:
    topic, other = topics.make(), {"WRITE": "READ", "READ": "WRITE"}[acl]
    named = TopicFrom(header="to", pattern="topic-.*")
    to = KafkaDestination(cluster=broker.secured(BOUND_USER), topic_from=named)
    table = make_store(tmp_path / "store", [message(1, headers={"to": topic})])
    document = replay_document(table, ReplayTask(job_id=f"to-{topic}", destination=to))
    of_replay = f"messagestore-to-{topic}*"
    topics.allow(BOUND, *(("TOPIC", topic, one) for one in ("DESCRIBE", other)))
    topics.allow(BOUND, ("TRANSACTIONAL_ID", of_replay, "WRITE"), ("GROUP", of_replay, "READ"))
    with pytest.raises(RunFailedError, match="for which the user lacks the ACL Write or Read") as failure:
        run_replay(Run.of(document, spark, Silent()))
    assert failure.value.reason == "KafkaDenied"
    topics.allow(BOUND, ("TOPIC", topic, acl))
    assert run_replay(Run.of(document, spark, Silent())).complete
