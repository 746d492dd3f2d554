"""Records with the version that their stream must have."""

import json
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.records import Envelope, FieldMapping
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.heads import raise_heads
from support.external_writes import observing
from support.ingests import START, Stream, adds_up, lines, record
from support.stores import remove_rows


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_a_wrong_expectation_is_a_dead_letter_in_message_dbs_words(stream: Stream) -> None:
    stream.arrive(
        "a.jsonl",
        lines(
            record("m1", expectedVersion=-1),
            record("m2", expectedVersion=0),
            record("m3", expectedVersion=0),
            b"garbage",
            record("m4", streamName="order-2", expectedVersion=3),
            record("m5", expectedVersion=1),
        ),
    )
    outcome = stream.run()
    assert [(row["message_id"], row["position"]) for row in stream.messages()] == [("m1", 0), ("m2", 1), ("m5", 2)]
    assert [(row["reason"], row["raw"]) for row in stream.dead_letters()] == [
        ("WrongExpectedVersion", record("m3", expectedVersion=0)),
        ("Unparseable", b"garbage"),
        ("WrongExpectedVersion", record("m4", streamName="order-2", expectedVersion=3)),
    ]
    assert [row["detail"] for row in stream.dead_letters() if row["reason"] == "WrongExpectedVersion"] == [
        "Wrong expected version: 0 (Stream: order-1, Stream Version: 1)",
        "Wrong expected version: 3 (Stream: order-2, Stream Version: -1)",
    ]
    assert (outcome.counts.stored, outcome.counts.dead_lettered) == (3, 3)
    assert adds_up(outcome.counts)


def test_a_record_that_expects_the_version_of_a_refused_one_is_judged_by_the_actual_version(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", expectedVersion=7)))
    stream.run()
    stream.arrive("b.jsonl", lines(record("m3", expectedVersion=1), record("m4", expectedVersion=0)))
    stream.run()
    assert stream.ids() == ["m1", "m4"]
    assert [row["position"] for row in stream.messages()] == [0, 1]


def test_a_file_that_is_read_again_changes_nothing_though_its_stream_has_grown(stream: Stream) -> None:
    early = lines(record("m2", expectedVersion=0), record("m1"))
    stream.arrive("a.jsonl", early)
    stream.run()
    assert stream.ids() == ["m1"]
    stream.arrive("a.jsonl", early, START + timedelta(minutes=1))
    outcome = stream.run()
    assert (outcome.counts.received, outcome.counts.duplicates) == (2, 2)
    assert stream.ids() == ["m1"]
    stream.arrive("b.jsonl", lines(record("m2", expectedVersion=0)))
    stream.run()
    assert stream.ids() == ["m1", "m2"], "the same record from another place is another try"


def cut_off(write: str, name: str, moment: str) -> None:
    if (name, moment) == (write, "before" if write == "messages" else "after"):
        raise ConnectionError


@pytest.mark.parametrize("write", ["dead-letters", "messages"])
def test_a_batch_that_was_cut_off_is_judged_the_same_again(stream: Stream, write: str) -> None:
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", expectedVersion=5), record("m3", expectedVersion=0)))
    with pytest.raises(ConnectionError), observing(partial(cut_off, write)):
        stream.run()
    outcome = stream.run()
    assert stream.ids() == ["m1", "m3"]
    assert stream.set_aside() == [("WrongExpectedVersion", record("m2", expectedVersion=5))]
    assert (outcome.totals.stored, outcome.totals.dead_lettered, outcome.totals.duplicates) == (2, 1, 0)


def test_what_was_set_aside_before_the_batch_was_cut_off_stays_so_after_a_purge(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.run()
    refused = record("m2", expectedVersion=1)
    stream.arrive("b.jsonl", lines(record("m1"), refused))
    with pytest.raises(ConnectionError), observing(partial(cut_off, "messages")):
        stream.run()
    remove_rows(stream.table.uri, "messages")
    raise_heads(HeldStore(stream.table.uri), pa.table({"stream_name": ["order-1"], "next_position": [1]}), 2)
    outcome = stream.run()
    assert [(row["message_id"], row["position"]) for row in stream.messages()] == [("m1", 1)]
    assert stream.set_aside() == [("WrongExpectedVersion", refused)]
    assert (outcome.counts.stored, outcome.counts.dead_lettered) == (1, 1)


def test_an_expected_version_may_come_from_a_custom_field(stream: Stream) -> None:
    fields = {name: FieldMapping(path=f"$.{name}") for name in ("messageId", "streamName")}
    envelope = Envelope(format="Custom", fields={**fields, "expectedVersion": FieldMapping(path="$.if.version")})
    versions = (-1, 4, None)
    rows = [{"messageId": f"m{v}", "streamName": "order-1", "if": {"version": v}} for v in versions]
    stream.arrive("a.jsonl", lines(*(json.dumps(row).encode() for row in rows)))
    stream.run(envelope=envelope)
    assert stream.ids() == ["m-1", "mNone"]
