"""Messages that are sent as CloudEvents to topics, in both modes of CloudEvents' binding of Kafka."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.contract.records import Envelope
from messagestore_core.contract.replay import ReplayTask, StartPoint, Subscription
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.replay import kafka
from messagestore_jobs.replay.job import run_replay
from support.events import read_record
from support.external_writes import observing
from support.kafkabroker import Broker
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics
from support.long import few
from support.purges import erase, files_below, purge
from support.replays import AT, Crash, replay_document
from support.stores import add_messages, make_store, message

MODES = ["CloudEvents", "CloudEventsBinary"]
EVENT = {"ce_specversion": b"1.0", "ce_source": b"/shop", "ce_type": b"placed"}
COMPARED = ("message_id", "stream_name", "type", "time", "payload", "content_type")


def to_topic(table: Table, broker: Broker, topic: str, envelope: str, **task: Any) -> RunDocument:
    destination = KafkaDestination(cluster=broker.cluster(), topic=topic, key="messageId", envelope=envelope)
    task = {"job_id": f"to-{topic}", "order": "Global", **task, "destination": destination}
    return replay_document(table, ReplayTask(**task))


def numbers(records: list[Record]) -> list[int]:
    return [int(read_record(record)[0]["globalposition"]) for record in records]


@pytest.mark.parametrize("envelope", MODES)
def test_an_event_that_came_is_sent_as_it_came_and_comes_in_again_as_the_same(
    spark: SparkSession, topics: Topics, broker: Broker, stream_of: Callable[..., KafkaStream], envelope: str
) -> None:
    came_from, out = topics.make(), topics.make()
    given = [
        ({"ce_id": b"50%#1", "content-type": b"a/b", "ce_ext": b"x"}, b"\x00\xff"),
        (
            {"ce_id": b"text", "content-type": b"application/json", "ce_subject": b"a-1", "X-Trace": b"t"},
            b'{"n": 1.10\n}',
        ),
        ({"ce_id": b"none"}, None),
    ]
    topics.send(came_from, *(Record(value, headers={**EVENT, **headers}) for headers, value in given))
    first, second = stream_of(came_from), stream_of(out)
    first.run(envelope=Envelope(format="CloudEvents"))
    outcome = run_replay(Run.of(to_topic(first.table, broker, out, envelope), spark, Silent()))
    assert (outcome.complete, outcome.progress.replayed) == (True, 3)
    for record, (headers, value) in zip(topics.read(out), given, strict=True):
        attributes, _ = read_record(record)
        due = {name.removeprefix("ce_"): text.decode() for name, text in {**EVENT, **headers}.items()}
        trace, kind = due.pop("X-Trace", None), due.pop("content-type", None)
        assert {name: attributes[name] for name in due} == due
        assert attributes.get("datacontenttype") == kind
        assert record.headers.get("X-Trace") == (trace and trace.encode())
        if envelope == "CloudEventsBinary":
            assert record.value == value
        assert record.key == f"/shop#{due['id']}".replace("%", "%25").replace("#1", "%231").encode()
    second.store = "again"
    second.run(envelope=Envelope(format="CloudEvents"))
    assert second.dead_letters() == []
    for came, again in zip(first.messages(), second.messages(), strict=True):
        assert {name: again[name] for name in COMPARED} == {name: came[name] for name in COMPARED}


@pytest.mark.parametrize("envelope", few(MODES, "CloudEventsBinary"))
def test_headers_that_no_attribute_can_have_are_headers_of_the_record(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, envelope: str
) -> None:
    headers = {"X-Trace": "t", "tenant": "x", "type": "its own", "ce_id": "none", "Content-Type": "none"}
    table = make_store(tmp_path / "store", [message(1, headers=headers, payload=b"{}", content_type=None)])
    topic = topics.make()
    document = to_topic(table, broker, topic, envelope, mark_headers={"x-replay": "{globalPosition}"})
    assert run_replay(Run.of(document, spark, Silent())).complete
    (record,) = topics.read(topic)
    attributes, _ = read_record(record)
    assert (attributes["id"], attributes["type"], attributes["tenant"]) == ("m1", "created", "x")
    others = {name: text for name, text in record.headers.items() if not name.startswith("ce_")}
    kind = b"application/json" if envelope == "CloudEventsBinary" else b"application/cloudevents+json; charset=utf-8"
    assert others == {"content-type": kind, "X-Trace": b"t", "type": b"its own", "x-replay": b"1"}


@pytest.mark.parametrize("envelope", few(MODES, "CloudEvents"))
def test_what_was_erased_before_its_transaction_is_not_sent_and_is_nowhere_staged(
    spark: SparkSession,
    topics: Topics,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    envelope: str,
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 4)
    table = make_store(tmp_path / "store", [message(i) for i in range(1, 11)])
    topic = topics.make()
    document = to_topic(table, broker, topic, envelope)

    def observer(name: str, moment: str) -> None:
        if (name, moment) == ("replay-transaction", "after"):
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    rule = Rule(name="erased", match=Match(message_ids=("m2", "m7")), erase=True)
    purge(spark, table, AT, rules=(rule,), erase_within=timedelta(0))
    erase(spark, table, AT)
    staged = b"".join(content for name, content in files_below(table.uri).items() if "/staging/" in name)
    lines = [json.loads(line) for line in staged.splitlines() if line.startswith(b"{")]
    assert [line["messageId"] for line in lines if line["messageId"]] == [
        "m1",
        *(f"m{n}" for n in (3, 4, 5, 6, 8, 9, 10)),
    ]
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert (outcome.complete, outcome.progress.erased) == (True, 1)
    assert numbers(topics.read(topic)) == [1, 2, 3, 4, 5, 6, 8, 9, 10]


def test_a_subscription_sends_events_round_by_round(
    spark: SparkSession, topics: Topics, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "TRANSACTION_RECORDS", 2)
    table = make_store(tmp_path / "store", [message(i) for i in range(1, 6)])
    topic = topics.make()
    document = to_topic(
        table, broker, topic, "CloudEventsBinary", subscription=Subscription(start=StartPoint(at="Beginning"))
    )
    seen: list[str] = []

    def observer(name: str, moment: str) -> None:
        seen.append(f"{name} {moment}")
        if seen.count("replay-transaction after") == 2:
            raise Crash

    with observing(observer), pytest.raises(Crash):
        run_replay(Run.of(document, spark, Silent()))
    run_replay(Run.of(document, spark, Silent()))
    add_messages(table.uri, [message(6), message(7)], next_global_position=8)
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert outcome.cursor.global_position == 7
    assert numbers(topics.read(topic)) == [1, 2, 3, 4, 5, 6, 7]
