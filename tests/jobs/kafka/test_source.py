"""Messages that arrive in topics of a real broker."""

import itertools
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestCounts, IngestTask
from messagestore_core.contract.records import Envelope, FieldMapping, KafkaCertificate, KafkaSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.offsets import OffsetRange, Partition
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source.kafka_listing import oldest_record
from support.certificates import certify, certify_one, quietly
from support.external_writes import unheard
from support.ingests import START, adds_up, at_the_messages_commit, positions_have_no_gap, record
from support.kafkabroker import NAMELESS, OF_TWO_LINES, USER, WRONG, Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics
from support.long import few
from support.replays import replay_document
from support.tokenserver import SCOPE
from support.waiting import scaled

StreamOf = Callable[..., KafkaStream]


def test_records_arrive_by_topic_partition_and_offset(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make(partitions=2)
    sent = [Record(record(f"m{n}"), partition=n % 2) for n in range(6)]
    topics.send(name, *sent)
    stream = stream_of(name)
    outcome = stream.run()
    uri = f"kafka:{name}"
    first = [(f"m{n}", uri, 0, n // 2) for n in (0, 2, 4)]
    assert stream.places() == [*first, *((f"m{n}", uri, 1, n // 2) for n in (1, 3, 5))]
    assert (outcome.batches, outcome.lag.records) == (1, 0)
    assert positions_have_no_gap(stream.messages())


def test_batches_take_a_fair_share_of_each_partition_and_later_runs_go_on(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make(partitions=2)
    topics.send(name, *(Record(record(f"a{n}"), partition=0) for n in range(9)))
    topics.send(name, *(Record(record(f"b{n}"), partition=1) for n in range(3)))
    stream = stream_of(name, max_records_per_batch=4)
    outcome = stream.run()
    assert (outcome.batches, outcome.totals) == (3, IngestCounts(received=12, stored=12))
    assert stream.ids()[:4] == ["a0", "a1", "a2", "b0"]
    topics.send(name, record("late"), record("a0"))
    outcome = stream.run()
    assert outcome.counts == IngestCounts(received=2, stored=1, duplicates=1)
    assert stream.run().batches == 0
    assert positions_have_no_gap(stream.messages())


def test_key_timestamp_and_headers_of_a_record_become_headers_of_the_message(
    topics: Topics, stream_of: StreamOf
) -> None:
    name = topics.make()
    said = {"trace": b"t-1", "mine": b"of the record", "bytes": b"\xff\x00"}
    value = record("m1", headers={"mine": "of the message"})
    topics.send(name, Record(value, key=b"order-1", headers=said, timestamp=1_767_268_800_123), record("m2"))
    stream = stream_of(name)
    outcome = stream.run()
    assert outcome.last_batch is not None
    waited = (datetime.now(UTC) - datetime(2026, 1, 1, 12, tzinfo=UTC)).total_seconds()
    assert outcome.last_batch.waited_seconds == pytest.approx(waited, abs=scaled(60))
    one, two = stream.messages()
    assert one["headers"] == {
        "trace": "t-1",
        "bytes": "/wA=",
        "mine": "of the message",
        "kafka-key": "order-1",
        "kafka-timestamp": "2026-01-01T12:00:00.123Z",
    }
    assert set(two["headers"]) == {"kafka-timestamp"}


EVENT = {"ce_specversion": b"1.0", "ce_id": b"e1", "ce_type": b"placed", "ce_source": b"shop-1", "ce_subject": b"7"}


def test_cloud_events_come_in_binary_and_in_structured_mode(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    binary = {**EVENT, "content-type": b"application/json", "ce_region": b"eu", "trace": b"t"}
    context = b'"specversion":"1.0","id":"e2","type":"placed","source":"shop-1","subject":"7","region":"eu"'
    structured = b"{" + context + b',"data":{"n":1.10}}'
    topics.send(
        name,
        Record(b'{"n": 1.10}', headers=binary),
        # The content type decides, in whatever letters, and not that there are attributes in headers too.
        Record(structured, headers={**EVENT, "content-type": b"Application/CloudEvents+JSON; charset=utf-8"}),
        Record(None, headers={**EVENT, "ce_id": b"e3"}),
        Record(b"\x00\x01", headers={**EVENT, "ce_id": b"e4", "content-type": b"application/octet-stream"}),
        Record(b"x", headers={"ce_specversion": b"1.0"}),
        Record(b"x", headers={**EVENT, "ce_specversion": b"0.3"}),
        Record(b"x", headers={**EVENT, "ce_a-b": b"c", "a-b": b"c"}),
        Record(b"x", headers={**EVENT, "ce_source": b"shop-2"}),
    )
    stream = stream_of(name)
    outcome = stream.run(envelope=Envelope(format="CloudEvents"))
    assert outcome.counts == IngestCounts(received=8, stored=5, dead_lettered=3)
    one, two, three, four, other = stream.messages()
    assert (one["message_id"], two["message_id"], other["message_id"]) == ("shop-1#e1", "shop-1#e2", "shop-2#e1")
    assert (one["stream_name"], one["type"], one["payload"]) == ("shop_1-7", "placed", b'{"n": 1.10}')
    assert (two["stream_name"], two["type"], two["payload"]) == ("shop_1-7", "placed", b'{"n":1.10}')
    assert (three["payload"], four["payload"], four["content_type"]) == (None, b"\0\1", "application/octet-stream")
    assert {k: v for k, v in one["headers"].items() if k != "kafka-timestamp"} == {
        "specversion": "1.0",
        "region": "eu",
        "trace": "t",
        "source": "shop-1",
        "subject": "7",
    }
    assert two["headers"]["region"] == "eu"
    assert [row["reason"] for row in stream.dead_letters()] == ["MissingField", "InvalidField", "InvalidField"]


def test_an_envelope_of_ones_own_may_take_what_stands_beside_the_value(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    value = b"\x00 no JSON"
    said = {"kind": b"placed", "X-CORRELATE-PayloadType-Revision": b"3", "X-CORRELATE-TTL": b"P30D"}
    topics.send(name, Record(value, key=b"order-7", headers=said, timestamp=1_767_268_800_000))
    mapped = {
        "messageId": FieldMapping(record="Place"),
        "streamName": FieldMapping(record="Key"),
        "type": FieldMapping(header="kind"),
        "typeNamespace": FieldMapping(header="space", default="shop"),
        "typeRevision": FieldMapping(header="X-CORRELATE-PayloadType-Revision"),
        "ttl": FieldMapping(header="X-CORRELATE-TTL"),
        "payloadEncoding": FieldMapping(header="X-CORRELATE-Payload-Encoding"),
        "time": FieldMapping(record="Timestamp"),
        "payload": FieldMapping(record="Value"),
        "contentType": FieldMapping(value="application/octet-stream"),
    }
    stream = stream_of(name)
    assert stream.run(envelope=Envelope(format="Custom", fields=mapped)).counts.stored == 1
    (row,) = stream.messages()
    assert (row["message_id"], row["stream_name"]) == (f"kafka:{name}/0#0", "order-7")
    assert (row["type"], row["type_namespace"], row["payload"]) == ("placed", "shop", value)
    assert (row["type_revision"], row["ttl"], row["payload_encoding"]) == ("3", "P30D", None)
    assert row["time"] == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert row["expires_at"] == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_bad_records_and_tombstones_are_set_aside_once(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, b"no JSON", Record(None, key=b"order-1"), record("m1"))
    stream = stream_of(name)
    assert stream.run().counts == IngestCounts(received=3, stored=1, dead_lettered=2)
    assert stream.set_aside() == [("Unparseable", b"no JSON"), ("Unparseable", None)]
    assert "tombstone" in stream.dead_letters()[1]["detail"]
    again = stream.run(source_id="another").counts
    assert again == IngestCounts(received=3, duplicates=3)
    assert adds_up(stream.run().totals)


def test_offsets_without_a_record_are_passed_over(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, record("m1"), commit=True)
    topics.send(name, record("never"), commit=False)
    topics.send(name, record("m2"), commit=True)
    stream = stream_of(name, max_records_per_batch=2)
    outcome = stream.run()
    assert (stream.ids(), outcome.totals.received, outcome.lag.records) == (["m1", "m2"], 2, 0)


def test_a_stream_from_latest_begins_where_topics_ended_when_it_was_made(topics: Topics, stream_of: StreamOf) -> None:
    prefix = topics.name()
    name = topics.make(f"{prefix}.a")
    topics.send(name, record("before"))
    stream = stream_of(topic_pattern=f"{prefix}[.].*", starting_offsets="Latest")
    assert stream.run().counts == IngestCounts()
    topics.send(name, record("after"))
    topics.grow(name, 2)
    topics.send(name, Record(record("in a new partition"), partition=1))
    topics.send(topics.make(f"{prefix}.b"), record("in a new topic"))
    stream.run()
    assert stream.ids() == ["after", "in a new partition", "in a new topic"]


def test_records_that_retention_took_before_they_were_read_are_told(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, *(record(f"m{n}") for n in range(3)))
    stream = stream_of(name)
    stream.run()
    topics.send(name, *(record(f"m{n}") for n in range(3, 9)))
    topics.remove_before(name, 7)
    outcome = stream.run(START + timedelta(hours=1))
    assert stream.ids() == ["m0", "m1", "m2", "m7", "m8"]
    assert outcome.loss.model_dump() == {
        "records": 4,
        "at": START + timedelta(hours=1),
        "topic": name,
        "partition": 0,
        "start": 3,
        "end": 7,
        "reason": "Retention",
    }
    assert f"topic {name}, partition 0: offsets 3 to 6 are lost" in stream.heard.said[-1]
    assert stream.run().loss == outcome.loss


@pytest.mark.long
def test_whatever_answer_is_lost_while_retention_takes_records_each_that_was_read_is_stored_once(
    topics: Topics, stream_of: StreamOf
) -> None:
    name = topics.make()
    topics.send(name, record("m0"))
    stream = stream_of(name, max_records_per_batch=15)
    stream.run()
    topics.send(name, *(record(f"m{n}") for n in range(1, 20)))
    gone, there = itertools.count(2), itertools.count(20)

    def change() -> None:
        topics.remove_before(name, next(gone))
        topics.send(name, record(f"m{next(there)}"))

    _, lost = unheard(stream.run, change)
    outcome = stream.run()

    assert {"plan", "plan-anew", "messages"} <= lost
    taken, sent = outcome.loss.records, next(there)
    assert stream.ids() == ["m0", *(f"m{n}" for n in range(1 + taken, sent))]
    assert outcome.totals == IngestCounts(received=sent - taken, stored=sent - taken)
    assert positions_have_no_gap(stream.messages())


def test_a_topic_that_was_deleted_and_made_again_is_read_from_its_start(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, *(record(f"m{n}") for n in range(4)))
    stream = stream_of(name, max_records_per_batch=2)
    stream.run()
    topics.delete(name)
    topics.make(name)
    topics.send(name, record("m0"), record("new"))
    outcome = stream.run()
    assert outcome.counts == IngestCounts(received=2, stored=1, duplicates=1)
    assert outcome.loss is None
    assert stream.ids()[-1] == "new"


BY_PLACE = Envelope(
    format="Custom",
    fields={
        "messageId": FieldMapping(record="Place"),
        "streamName": FieldMapping(record="Topic"),
        "type": FieldMapping(header="kind"),
        "payload": FieldMapping(record="Value"),
    },
    required=("type",),
)


def made_again(topics: Topics, name: str, *records: Record) -> None:
    topics.delete(name)
    topics.make(name)
    topics.send(name, *records)


@pytest.mark.long
def test_records_of_a_topic_that_was_made_again_are_others_though_their_places_are_the_same(
    topics: Topics, stream_of: StreamOf
) -> None:
    name, kind = topics.make(), {"kind": b"placed"}
    # Two are set aside, as they have no type.
    topics.send(name, Record(b"a", headers=kind), Record(b"b", headers=kind), Record(b"c"), Record(b"d"))
    stream = stream_of(name, max_records_per_batch=2)
    stream.settings = {"envelope": BY_PLACE}
    assert stream.run().totals == IngestCounts(received=4, stored=2, dead_lettered=2)
    made_again(topics, name, *(Record(value, headers=kind) for value in (b"e", b"f")), Record(b"c"), Record(b"g"))
    assert stream.run().totals == IngestCounts(received=8, stored=4, dead_lettered=4)
    made_again(topics, name, Record(b"a", headers=kind))
    assert stream.run().totals == IngestCounts(received=9, stored=5, dead_lettered=4)
    places = [f"kafka:{name}{topic}" for topic in ("", "", "@2", "@2", "@3")]
    ids = [f"{place}/0#{offset}" for place, offset in zip(places, (0, 1, 0, 1, 0), strict=True)]
    rows = stream.messages()
    assert [row["message_id"] for row in rows] == ids
    assert [row["source"]["uri"] for row in rows] == places
    assert [row["payload"] for row in rows] == [b"a", b"b", b"e", b"f", b"a"]
    assert {row["stream_name"] for row in rows} == {name}
    assert stream.run().batches == 0

    stream.settings = {"envelope": BY_PLACE.model_copy(update={"fields": {**BY_PLACE.fields, "type": ANY_TYPE}})}
    redriven(stream)
    again = {(row["message_id"], row["payload"]) for row in stream.messages()[5:]}
    assert again == {(f"kafka:{name}{topic}/0#{n}", raw) for topic, n, raw in REDRIVEN}


ANY_TYPE = FieldMapping(header="kind", default="placed")
REDRIVEN = [("", 2, b"c"), ("", 3, b"d"), ("@2", 2, b"c"), ("@2", 3, b"g")]


def redriven(stream: KafkaStream) -> None:
    """Send all dead letters of a stream to it again."""
    ingest = stream.document().task
    assert isinstance(ingest, IngestTask)
    destination = StreamDestination(table=stream.table, ingest=ingest)
    task = ReplayTask(job_id="again", origin="DeadLetters", destination=destination)
    run_replay(Run.of(replay_document(stream.table, task), stream.spark, stream.heard))


def test_records_that_are_deleted_while_a_batch_is_read_count_as_lost(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, *(record(f"m{n}") for n in range(4)))
    stream = stream_of(name)
    with at_the_messages_commit(lambda: topics.remove_before(name, 3)):
        outcome = stream.run()
    assert (outcome.loss.records, stream.ids()) == (3, ["m3"])
    assert outcome.totals == IngestCounts(received=1, stored=1)


@pytest.mark.long
def test_a_broker_may_start_anew_in_the_middle_of_a_batch(topics: Topics, broker: Broker, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, *(record(f"m{n}") for n in range(50)))
    stream = stream_of(name)

    def crash() -> None:
        broker.kill()
        threading.Thread(target=broker.start).start()

    with at_the_messages_commit(crash):
        outcome = stream.run()
    assert outcome.totals == IngestCounts(received=50, stored=50)


@pytest.mark.long
def test_a_partition_that_lost_its_end_is_read_on_from_there(
    topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    name = topics.make()
    topics.send(name, *(record(f"m{n}") for n in range(5)))
    stream = stream_of(name)
    assert stream.run().totals.stored == 5
    broker.kill()
    shutil.rmtree(broker.home / "data" / f"{name}-0")
    broker.start()
    assert stream.run().counts.received == 0
    topics.send(name, *(record(f"new{n}") for n in range(7)))
    assert (stream.run().totals, stream.run().lag.records) == (IngestCounts(received=12, stored=12), 0)


def test_a_pattern_that_is_no_expression_is_named(stream_of: StreamOf) -> None:
    with pytest.raises(RunFailedError, match="topicPattern is no regular expression: Unclosed group") as failure:
        stream_of(topic_pattern="orders[.](a").run()
    assert failure.value.reason == "InvalidSpec"


def test_a_topic_that_is_not_there_is_named(stream_of: StreamOf) -> None:
    with pytest.raises(RunFailedError, match="there is no topic nowhere") as failure:
        stream_of("nowhere").run()
    assert failure.value.reason == "TopicMissing"


@pytest.mark.parametrize("tls", few([False, True], True), ids=["plain", "tls"])
def test_a_user_is_told_by_the_environment_alone(
    topics: Topics, broker: Broker, stream_of: StreamOf, tls: bool
) -> None:
    name = topics.make()
    topics.send(name, record("m1"))
    stream = stream_of(name, cluster=broker.secured(tls=tls))
    assert stream.run().totals.stored == 1
    with pytest.raises(RunFailedError, match="refuse the credentials: check the keys of the Secret") as failure:
        stream.run(source={"cluster": broker.secured(WRONG, tls=tls)})
    assert failure.value.reason == "KafkaDenied"
    with pytest.raises(RunFailedError, match="refuse the credentials: check the keys of the Secret") as failure:
        stream.run(source={"cluster": broker.secured(OF_TWO_LINES, tls=tls)})
    assert (failure.value.reason, "second-line" in str(failure.value.__cause__)) == ("KafkaDenied", False)


def test_the_lag_of_a_topic_has_its_records_and_the_time_of_the_oldest(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, *(Record(record(f"m{n}"), timestamp=1_767_268_800_000 + n * 1000) for n in range(5)))
    stream = stream_of(name, max_records_per_batch=2)
    heard = []

    class Listening:
        def stopped(self, wait: timedelta) -> bool:
            return bool(heard)

        def taken_in(self, tell: Callable[[], object]) -> None:
            heard.append(tell())

        def between_batches(self) -> None:
            pass

    document = stream.document()
    open_folder(HeldStore.of(document.table, Storage()))
    run_ingest(Run.of(document, stream.spark, stream.heard), Listening())
    lag = heard[0].lag
    assert (lag.records, lag.oldest_pending_time.isoformat()) == (3, "2026-01-01T12:00:02+00:00")
    assert isinstance(document.task.source, KafkaSource)


def test_a_time_of_a_record_that_is_no_milliseconds_counts_as_absent(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make(partitions=3, message_timestamp_after_max_ms=str(2**63 - 1))
    stamps = [1_767_268_800_000, 1_767_268_800_000_000, 1_767_268_800_000_000_000]
    for partition, stamp in enumerate(stamps):
        topics.send(name, Record(record(f"m{partition}"), timestamp=stamp, partition=partition))
    stream = stream_of(name)
    waiting = [OffsetRange(Partition(name, "", partition), 0, 1, 1) for partition in range(3)]
    source = stream.document().task.source
    for ranges, due in ((waiting, "2026-01-01T12:00:00+00:00"), (waiting[1:], None)):
        oldest = oldest_record(stream.spark, source, ranges)
        assert (oldest and oldest.isoformat()) == due
    stream.run()
    told = {row["message_id"]: row["headers"].get("kafka-timestamp") for row in stream.messages()}
    assert told == {"m0": "2026-01-01T12:00:00Z", "m1": None, "m2": None}


@pytest.mark.long
def test_a_redriven_dead_letter_has_its_key_headers_and_timestamp(topics: Topics, stream_of: StreamOf) -> None:
    name = topics.make()
    headers = {**EVENT, "ce_region": b"eu", "content-type": b"text/plain"}
    topics.send(name, Record(b"a long text", key=b"k", headers=headers, timestamp=1_767_268_800_000))
    stream = stream_of(name)
    stream.settings = {"envelope": Envelope(format="CloudEvents")}
    assert stream.run(max_payload_bytes=4).counts.dead_lettered == 1
    (letter,) = stream.dead_letters()
    assert (letter["message_id"], letter["stream_name"]) == ("shop-1#e1", "shop_1-7")
    redriven(stream)
    (row,) = stream.messages()
    assert (row["stream_name"], row["payload"], row["content_type"]) == ("shop_1-7", b"a long text", "text/plain")
    assert row["headers"] == {
        "specversion": "1.0",
        "region": "eu",
        "source": "shop-1",
        "subject": "7",
        "kafka-key": "k",
        "kafka-timestamp": "2026-01-01T12:00:00Z",
    }
    assert stream.dead_letters()[0]["redriven_at"] is not None


def test_a_name_in_the_spec_is_the_users_where_the_secret_has_none(
    topics: Topics, broker: Broker, stream_of: StreamOf
) -> None:
    name = topics.make()
    topics.send(name, record("m1"))
    cluster = broker.secured(NAMELESS, tls=True)
    stream = stream_of(name, cluster=cluster.model_copy(update={"username": USER}))
    assert stream.run().totals.stored == 1
    with pytest.raises(RunFailedError, match="is not set; check key username of the Secret"):
        stream.run(source={"cluster": cluster})
    with pytest.raises(RunFailedError, match="leave one of them out") as failure:
        stream.run(source={"cluster": broker.secured(tls=True).model_copy(update={"username": USER})})
    assert failure.value.reason == "KafkaDenied"


def test_brokers_know_a_client_by_its_certificate(
    topics: Topics, broker: Broker, stream_of: StreamOf, tmp_path: Path
) -> None:
    name = topics.make()
    topics.send(name, record("m1"))
    stream = stream_of(name, cluster=broker.by_certificate())
    assert stream.run().totals.stored == 1
    certify(tmp_path)
    stranger, key = certify_one(tmp_path, "stranger", "extendedKeyUsage=clientAuth")
    unknown = KafkaCertificate(certificate_file=str(stranger), key_file=str(key))
    for client, words in {
        unknown: "refuse the credentials",
        unknown.model_copy(update={"key_file": str(tmp_path / "none")}): "none has no text; check the keys",
        unknown.model_copy(update={"key_file": _as_pkcs1(key)}): "must be PKCS#8 .*as cert-manager makes it with",
    }.items():
        with pytest.raises(RunFailedError, match=words) as failure:
            stream.run(source={"cluster": broker.by_certificate(client)})
        assert failure.value.reason == "KafkaDenied"
        assert "PRIVATE KEY-" not in str(failure.value)


def _as_pkcs1(key: Path) -> str:
    old = key.with_suffix(".pkcs1")
    quietly(["openssl", "rsa", "-in", str(key), "-traditional", "-out", str(old)])
    return str(old)


def test_a_client_gets_its_tokens_by_its_id_and_secret(topics: Topics, broker: Broker, stream_of: StreamOf) -> None:
    name = topics.make()
    topics.send(name, record("m1"))
    stream = stream_of(name, cluster=broker.by_token())
    assert stream.run().totals.stored == 1
    assert set(broker.tokens.asked) == {SCOPE}
    with pytest.raises(
        RunFailedError, match="refuses the client with code 401: check keys clientId and clientSecret"
    ) as failure:
        stream.run(source={"cluster": broker.by_token(WRONG)})
    assert failure.value.reason == "KafkaDenied"
    assert "not-the-password" not in str(failure.value)
