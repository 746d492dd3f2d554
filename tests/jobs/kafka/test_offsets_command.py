"""The command that says where a consumer group goes on in a topic that was put back, and commits it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner, Result

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.topics import Place, RestoredNote, note_restored
from messagestore_operator.cli.main import app
from support.kafkabroker import Broker
from support.waiting import wait_until

TOPIC = "orders-put-back"
MOVED = {0: 4698, 2: 0}


def make(admin: AdminClient) -> str:
    """Make the topic; its id in librdkafka's alphabet."""
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result()

    def found() -> str | None:
        asked = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC]
        return str(asked.result().topic_id) if asked.exception() is None else None

    wait_until(lambda: found() is not None, 30, lambda: f"{TOPIC} is there")
    return str(found())


def delete(admin: AdminClient) -> None:
    admin.delete_topics([TOPIC])[TOPIC].result()
    wait_until(lambda: TOPIC not in admin.list_topics().topics, 30, lambda: "it is gone")


def id_of_new_topic(admin: AdminClient) -> str:
    """The id, as Kafka writes it, of a topic that it writes in another way than librdkafka."""
    while not set("+/") & set(topic_id := make(admin)):
        delete(admin)
    return topic_id.replace("+", "-").replace("/", "_")


def put_back(uri: str, topic_id: str) -> None:
    was = {0: Place(1, 4711), 2: Place(1, 0)}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    note = RestoredNote(topic=TOPIC, topic_id=topic_id, job="shop.back.0a1b2c3d", noted_at=at, groups={"billing": was})
    note_restored(HeldStore(uri), note.model_copy(update={"ends": {0: 5000}, "moved": {"billing": MOVED}}))


def committed(admin: AdminClient) -> dict[int, int]:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("billing")])["billing"]
    return {one.partition: one.offset for one in asked.result().topic_partitions}


@contextmanager
def member(broker: Broker) -> Iterator[None]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "billing", "enable.auto.commit": False})
    try:
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(0.2) is None and bool(consumer.assignment()), 60, lambda: "it is a member")
        yield
    finally:
        consumer.close()


def test_offsets_are_printed_and_committed_for_a_group_without_members(broker: Broker, tmp_path: Path) -> None:
    uri, client = f"file://{tmp_path}/store", tmp_path / "client.properties"
    client.write_text(f"# of this test\nbootstrap.servers = {broker.address}\n")
    admin = AdminClient({"bootstrap.servers": broker.address})

    def offsets(*options: str, group: str = "billing") -> Result:
        return CliRunner().invoke(app, ["offsets", uri, "--group", group, *options])

    apply = ("--apply", "--client", str(client))
    topic_id = id_of_new_topic(admin)
    unknown = offsets()
    assert (unknown.exit_code, "no topic that was put back" in unknown.stderr) == (1, True)
    put_back(uri, topic_id)
    assert offsets(group="other").exit_code == 1
    assert [offsets("--job", job).exit_code for job in ("shop/back", "shop/other", "back")] == [0, 1, 2]
    assert offsets("--apply").exit_code == 2
    assert [line.split() for line in offsets().stdout.splitlines()[1:]] == [
        [TOPIC, "0", "4711", "4698"],
        [TOPIC, "2", "0", "0"],
    ]
    assert offsets("--csv").stdout.splitlines() == [f"{TOPIC},0,4698", f"{TOPIC},2,0"]
    with member(broker):
        refused = offsets(*apply)
        assert (refused.exit_code, "has 1 members" in refused.stderr) == (1, True)
        assert committed(admin) == {}
    assert offsets(*apply).exit_code == 0
    assert committed(admin) == MOVED
    delete(admin)
    make(admin)
    gone = offsets(*apply)
    assert (gone.exit_code, "is another one" in gone.stderr) == (1, True)
    assert "bootstrap.servers" in offsets("--apply", "--client", str(_empty(tmp_path))).stderr


def _empty(folder: Path) -> Path:
    path = folder / "empty.properties"
    path.write_text("")
    return path
