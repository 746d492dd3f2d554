"""Harmful records in topics: each becomes a message, a duplicate or a dead letter, and the batch goes on."""

import os
from collections.abc import Callable

import pytest

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Envelope
from messagestore_jobs.source import records
from support.hostile_records import HostileRecords
from support.ingests import adds_up, positions_have_no_gap, record
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics

pytestmark = pytest.mark.usefixtures("compiled")

COUNT = int(os.environ.get("MESSAGESTORE_RECORDS", "10000")) // 20
SEED = int(os.environ.get("MESSAGESTORE_RECORDS_SEED", "16"))
AT_ONCE = 1_000

StreamOf = Callable[..., KafkaStream]


def test_each_record_of_a_topic_becomes_one_message_or_one_dead_letter(topics: Topics, stream_of: StreamOf) -> None:
    name, hostile = topics.make(message_timestamp_after_max_ms=str(2**63 - 1)), HostileRecords(SEED)
    for _ in range(max(1, COUNT // AT_ONCE)):
        topics.send(name, *(hostile.of_kafka() for _ in range(AT_ONCE)))
    stream = stream_of(name)
    stream.settings["envelope"] = Envelope(format="CloudEvents")
    totals = stream.run().totals
    messages, dead_letters = stream.messages(), stream.dead_letters()
    assert totals.received == max(COUNT, AT_ONCE), f"seed {SEED}"
    assert adds_up(totals), f"seed {SEED}: {totals}"
    assert (totals.stored, totals.dead_lettered) == (len(messages), len(dead_letters)), f"seed {SEED}"
    assert min(totals.stored, totals.dead_lettered) > AT_ONCE // 100
    offsets = [row["source"]["offset"] for row in (*messages, *dead_letters)]
    assert len(set(offsets)) == len(offsets) == totals.received - totals.duplicates, f"seed {SEED}"
    assert positions_have_no_gap(messages)


def test_of_a_record_that_is_too_large_the_start_is_set_aside(
    topics: Topics, stream_of: StreamOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "too_many_bytes", lambda spark: 100_000)
    name = topics.make()
    large = record("large", type="x" * 200_000)
    topics.send(
        name,
        record("before"),
        large,
        Record(record("key"), key=b"k" * 100_000),
        Record(record("headers"), headers={f"h{n}": b"" for n in range(1_001)}),
        Record(record("after"), headers={f"h{n}": b"" for n in range(1_000)}),
    )
    stream = stream_of(name)
    assert stream.run().counts == IngestCounts(received=5, stored=2, dead_lettered=3)
    assert stream.ids() == ["before", "after"]
    raws = [large[:65_536], record("key"), record("headers")]
    assert stream.set_aside() == [("RecordTooLarge", raw) for raw in raws]
    assert [set(dict(row["headers"])) for row in stream.dead_letters()] == [{"kafka-timestamp"}] * 3
    details = [row["detail"] for row in stream.dead_letters()]
    assert f"{len(large)} bytes long" in details[0]
    assert f"{len(record('key')) + 100_000} bytes long" in details[1]
    assert "1001 headers" in details[2]
