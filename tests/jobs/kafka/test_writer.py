"""What applications write to topics."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from messagestore.errors import StorageError
from messagestore.reader import Reader
from messagestore.records import Record
from messagestore.writer import KafkaCluster, KafkaSink, Writer
from messagestore_core.contract.ingest import Lifecycle
from messagestore_core.contract.records import KafkaSource
from support import kafkatopics
from support.ingests import positions_have_no_gap
from support.kafkabroker import PASSWORD, WRONG, Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Topics
from support.waiting import scaled, wait_until

AT = datetime(2026, 1, 5, tzinfo=UTC)
CHANCE = random.Random(1)

StreamOf = Callable[..., KafkaStream]


class Interrupted:
    """A sink that is interrupted in the middle of its first batch."""

    def __init__(self, sink: KafkaSink, act: Callable[[], None]) -> None:
        self.sink, self.acts = sink, [act]

    def write(self, records: Sequence[Record]) -> None:
        self.sink.write(Halves(records, self.acts.pop()) if self.acts else records)

    def close(self) -> None:
        self.sink.close()


class Halves(list[Record]):
    """Records that call ``act`` in the middle of the first iteration."""

    def __init__(self, records: Sequence[Record], act: Callable[[], None]) -> None:
        super().__init__(records)
        self.acts = [act]

    def __iter__(self) -> Iterator[Record]:
        for number in range(len(self)):
            if number == len(self) // 2 and self.acts:
                self.acts.pop()()
            yield self[number]


def fill(writer: Writer, count: int, size: int = 0) -> None:
    """Write messages of five entities in turn."""
    for number in range(count):
        writer.write_message(f"m{number}", f"order-{number % 5}", "Placed", {"n": number, "fill": "x" * size})


def ids(records: Sequence[kafkatopics.Record]) -> list[str]:
    return [json.loads(record.value or b"")["messageId"] for record in records]


def client_threads() -> set[str]:
    """The Kafka client's threads in this process."""
    return {task.name for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text().startswith("rdk")}


def test_messages_come_back_as_they_were_written_and_in_order(
    topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    name = topics.make(partitions=3)
    with Writer(KafkaSink(name, broker.address), batch_records=30) as writer:
        fill(writer, 100)
        writer.store_received("last", "saga-1", payload=b'{"n":1.10}', headers={"a": "b"}, stream_name="order-0")
    stream = stream_of(name)
    stream.run()

    store = Reader(stream.table.uri)
    for entity in range(1, 5):
        found = list(store.get_stream_messages(f"order-{entity}"))
        assert [m.json() for m in found] == [{"n": n, "fill": ""} for n in range(entity, 100, 5)]
    last = list(store.get_stream_messages("order-0"))[-1]
    assert (last.message_id, last.correlation_id, last.payload) == ("last", "saga-1", b'{"n":1.10}')
    assert last.headers["a"] == "b"
    assert len({partition for _, _, partition, _ in stream.places()}) > 1
    assert positions_have_no_gap(stream.messages())
    assert stream.dead_letters() == []


def test_marks_reach_their_messages_through_a_topic(topics: Topics, broker: Broker, stream_of: StreamOf) -> None:
    messages, updates = topics.make(partitions=2), topics.make(partitions=2)
    to = KafkaSink(messages, broker.address), KafkaSink(updates, broker.address)
    with Writer(*to, clock=lambda: AT) as writer:
        for number in range(1, 5):
            writer.write_message(f"m{number}", "order-1", "Placed", None)
            writer.mark_processing(f"m{number}")
        writer.mark_completed("m2", {"ok": True})
        writer.mark_failed("m3", "out of stock")
        writer.mark_failed("m4", "out of stock")
        writer.mark_processing("m4")
    stream = stream_of(messages)
    source = KafkaSource(cluster=broker.cluster(), topics=(updates,))
    stream.run(lifecycle=Lifecycle(source_id="updates", source=source))

    statuses = [row["status"] for row in stream.messages()]
    assert statuses == ["PROCESSING", "COMPLETED", "FAILED", "PROCESSING"]
    assert stream.messages()[1]["result"] == b'{"ok":true}'


def test_a_batch_that_breaks_off_is_never_seen_and_arrives_once_later(topics: Topics, broker: Broker) -> None:
    name = topics.make()
    half_seen: list[kafkatopics.Record] = []

    def crash() -> None:
        while not half_seen:
            half_seen.extend(topics.read(name, committed=False))
        broker.kill()

    writer = Writer(Interrupted(KafkaSink(name, broker.address, timeout_seconds=3), crash))
    fill(writer, 1000)
    try:
        with pytest.raises(StorageError, match="can't be reached: check bootstrap_servers"):
            writer.flush()
    finally:
        broker.start()
    assert topics.read(name) == []

    def closed() -> bool:
        try:
            writer.close()
            return True
        except StorageError:
            assert topics.read(name) == []
            return False

    wait_until(closed, 60, lambda: "the broker takes what was written", beat=0)
    assert ids(topics.read(name)) == [f"m{n}" for n in range(1000)]


def test_a_record_too_large_for_its_topic_keeps_its_batch_back(topics: Topics, broker: Broker) -> None:
    name = topics.make(max_message_bytes="100000")
    writer = Writer(KafkaSink(name, broker.address))
    writer.write_message("small", "order-1", "Placed", None)
    writer.write_message("large", "order-1", "Placed", random_text(200_000))
    writer.write_message("after", "order-2", "Placed", None)

    for _ in range(2):
        with pytest.raises(StorageError, match=r"no record as large as one of 2000\d\d bytes: raise its max.message"):
            writer.flush()
        assert topics.read(name) == []
    with Writer(KafkaSink(name, broker.address)) as another:
        another.write_message("of another", "order-1", "Placed", None)
    assert ids(topics.read(name)) == ["of another"], "readers wait for a transaction that is not taken back"
    topics.change(name, "max.message.bytes", "1000000")
    writer.close()

    assert ids(topics.read(name)) == ["of another", "small", "large", "after"]


def test_many_small_records_fit_a_topic_that_takes_no_large_one(topics: Topics, broker: Broker) -> None:
    name = topics.make(max_message_bytes="100000")
    with Writer(KafkaSink(name, broker.address)) as writer:
        for number in range(500):
            writer.write_message(f"m{number}", "order-1", "Placed", random_text(2000))

    assert ids(topics.read(name)) == [f"m{n}" for n in range(500)]


def test_a_batch_may_be_as_large_as_the_writer_says(topics: Topics, broker: Broker) -> None:
    name = topics.make()
    with Writer(KafkaSink(name, broker.address), batch_records=150_000) as writer:
        fill(writer, 120_000)

    with closing(Consumer({"bootstrap.servers": broker.address, "group.id": name})) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(name, 0))
    assert end == 120_000 + len(["the mark of the one transaction's end"])


def test_a_stream_has_the_partition_that_other_clients_choose_for_it(topics: Topics, broker: Broker) -> None:
    ours, javas = topics.make(partitions=8), topics.make(partitions=8)
    keys = [f"order-{number}" for number in range(40)]
    with Writer(KafkaSink(ours, broker.address)) as writer:
        for key in keys:
            writer.write_message(key, key, "Placed", None)
    topics.send(javas, *(kafkatopics.Record(b"{}", key=key.encode()) for key in keys))

    assert {r.key: r.partition for r in topics.read(ours)} == {r.key: r.partition for r in topics.read(javas)}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_user_is_told_by_the_environment_alone(topics: Topics, broker: Broker, tls: bool) -> None:
    name = topics.make()
    sink = KafkaSink(name, broker.secured(tls=tls))
    with Writer(sink) as writer:
        writer.write_message("m1", "order-1", "Placed", None)
        writer.flush()
        assert repr(PASSWORD) not in str(vars(sink)) + str(vars(sink._open))

    assert ids(topics.read(name)) == ["m1"]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_wrong_password_is_told_at_once(topics: Topics, broker: Broker, tls: bool) -> None:
    writer = Writer(KafkaSink(topics.make(), broker.secured(WRONG, tls=tls)))
    writer.write_message("m1", "order-1", "Placed", None)

    began = time.monotonic()
    with pytest.raises(StorageError, match=f"refuse the credentials: check variables {WRONG.username} and") as failure:
        writer.flush()
    assert time.monotonic() - began < scaled(20)
    assert "not-the-password" not in str(failure.value)


@pytest.mark.parametrize("by", ["certificate", "token"])
def test_a_client_is_known_by_a_certificate_or_a_token(topics: Topics, broker: Broker, by: str) -> None:
    name = topics.make()
    with Writer(KafkaSink(name, broker.by_certificate() if by == "certificate" else broker.by_token())) as writer:
        writer.write_message("m1", "order-1", "Placed", None)
    assert ids(topics.read(name)) == ["m1"]


def test_brokers_of_an_unknown_authority_are_not_trusted(topics: Topics, broker: Broker) -> None:
    cluster = broker.secured(tls=True).model_copy(update={"ca_file": None})
    writer = Writer(KafkaSink(topics.make(), cluster))
    writer.write_message("m1", "order-1", "Placed", None)

    with pytest.raises(StorageError, match="not trusted: check protocol, and ca_file"):
        writer.flush()


def test_records_wait_for_a_topic_that_is_not_there(topics: Topics, broker: Broker) -> None:
    name = topics.name()
    writer = Writer(KafkaSink(name, broker.address))
    writer.write_message("m1", "order-1", "Placed", None)
    with pytest.raises(
        StorageError, match=f"topic {name} can't be written: it is not at {broker.address}, or .* create"
    ):
        writer.flush()
    topics.make(name)
    writer.flush()
    assert ids(topics.read(name)) == ["m1"]

    topics.delete(name)
    writer.write_message("m2", "order-1", "Placed", None)
    with pytest.raises(StorageError, match=f"topic {name} can't be written: it is not at"):
        writer.flush()
    topics.make(name)
    writer.close()
    assert ids(topics.read(name)) == ["m2"]


def test_brokers_that_are_not_there_are_waited_for_no_longer_than_was_said(broker: Broker) -> None:
    silent = KafkaCluster(bootstrap_servers="127.0.0.1:1")
    wrong_protocol = KafkaCluster(bootstrap_servers=broker.secured().bootstrap_servers)
    for cluster in (silent, wrong_protocol):
        writer = Writer(KafkaSink("orders", cluster, timeout_seconds=2))
        writer.write_message("m1", "order-1", "Placed", None)
        began = time.monotonic()
        with pytest.raises(StorageError, match=f"the brokers at {cluster.bootstrap_servers} can't be reached: check"):
            writer.flush()
        assert 2 <= time.monotonic() - began < scaled(10)


def test_a_sink_of_the_same_transactional_id_puts_an_end_to_an_earlier_one(topics: Topics, broker: Broker) -> None:
    name = topics.make()
    earlier = Writer(KafkaSink(name, broker.address, transactional_id=f"{name}-writer"))
    earlier.write_message("m1", "order-1", "Placed", None)
    earlier.flush()
    with Writer(KafkaSink(name, broker.address, transactional_id=f"{name}-writer")) as later:
        later.write_message("m2", "order-1", "Placed", None)
        later.flush()
        earlier.write_message("m3", "order-1", "Placed", None)
        for _ in range(2):
            with pytest.raises(StorageError, match=f"another writer has taken over transactional id {name}-writer"):
                earlier.flush()
        later.write_message("m4", "order-1", "Placed", None)

    assert ids(topics.read(name)) == ["m1", "m2", "m4"]


def test_a_sink_of_its_own_id_goes_on_after_brokers_shut_it_out(topics: Topics, broker: Broker) -> None:
    name = topics.make()
    sink = KafkaSink(name, broker.address)
    writer = Writer(sink)
    writer.write_message("m1", "order-1", "Placed", None)
    writer.flush()
    KafkaSink(name, broker.address, transactional_id=sink._id).write([Record("order-1", b'{"messageId":"other"}')])

    writer.write_message("m2", "order-1", "Placed", None)
    with pytest.raises(StorageError, match="or this one paused for too long"):
        writer.flush()
    writer.close()
    assert ids(topics.read(name)) == ["m1", "other", "m2"]


def test_writers_in_several_threads_may_share_a_sink(topics: Topics, broker: Broker) -> None:
    name = topics.make(partitions=2)
    sink = KafkaSink(name, broker.address)
    failures: list[Exception] = []

    def write(worker: int) -> None:
        writer = Writer(sink, batch_records=7)
        try:
            for number in range(50):
                writer.write_message(f"{worker}-{number}", f"order-{worker}", "Placed", None)
            writer.flush()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()

    assert failures == []
    assert sorted(ids(topics.read(name))) == sorted(f"{worker}-{n}" for worker in range(4) for n in range(50))


def test_a_closed_or_failed_writer_leaves_no_client_thread(topics: Topics, broker: Broker) -> None:
    before = client_threads()
    writer = Writer(KafkaSink(topics.make(), broker.address))
    writer.write_message("m1", "order-1", "Placed", None)
    writer.flush()
    assert client_threads() - before
    writer.close()
    assert not client_threads() - before

    failing = Writer(KafkaSink(topics.make(), broker.secured(WRONG)))
    failing.write_message("m1", "order-1", "Placed", None)
    with pytest.raises(StorageError):
        failing.flush()
    assert not client_threads() - before


def random_text(length: int) -> str:
    """Text that compresses badly."""
    return CHANCE.randbytes(length // 2).hex()
