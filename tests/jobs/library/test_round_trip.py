"""From a writer through an ingest to a reader."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore.message import Message
from messagestore.native import native_record
from messagestore.reader import Reader
from messagestore.snapshot import Snapshot
from messagestore.writer import NewMessage, Writer
from messagestore_core.store.handle import Store
from messagestore_jobs.native import to_native
from messagestore_jobs.rows.messages import read_messages
from support.fields import TEXTS
from support.lifecycles import Updated
from support.stores import make_store, message

AT = datetime(2026, 1, 5, tzinfo=UTC)
PAYLOADS: list[tuple[Any, str | None]] = [
    ({"a": [1, None, "é"]}, None),
    (b'{"b":1.10,"a":1E2,"big":9007199254740993.0,"s":"\\u00e9\\/"}', None),
    (b'{\n "a": 1\r\n}', "application/json"),
    (b"null", None),
    (b'{"a":1,"a":2}', None),
    (b"\xff\xfe", "application/json"),
    ('text with " and \\ and \n\u2028', "text/plain"),
    (b"", "text/plain"),
    (bytes(range(256)), "application/octet-stream"),
    (None, None),
]
DEEP = b"[" * 600 + b"]" * 600
"""A writer sends it as base64, a replay as JSON: the bytes are the same."""


def test_every_payload_comes_back_as_it_was_given(spark: SparkSession, tmp_path: Path) -> None:
    stream, given = Updated(spark, tmp_path), [*PAYLOADS, (DEEP, None)]
    with Writer(f"file://{stream.landing}", batch_records=3) as writer:
        for number, (payload, content_type) in enumerate(given):
            writer.write(
                NewMessage(message_id=str(number), stream_name="order-1", payload=payload, content_type=content_type)
            )
    stream.run()

    found = list(Reader(stream.table.uri).get_stream_messages("order-1"))

    assert stream.dead_letters() == []
    assert [m.message_id for m in found] == [str(number) for number in range(len(given))]
    for message_, (payload, _) in zip(found, given, strict=True):
        if isinstance(payload, bytes):
            assert message_.payload == payload
        elif isinstance(payload, str):
            assert message_.data == payload
        else:
            assert message_.json() == payload


def test_every_field_comes_back_as_it_was_given(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    given: dict[str, Any] = {
        **{column: f"any {column}" for column in TEXTS if column != "sequence_id"},
        "sequence_id": "seq-1",
        "sequence_number": 2,
        "sequence_size": 3,
        "sequence_end": False,
        "content_type": "application/json",
        "schema_version": 4,
        "time": AT,
    }
    with Writer(f"file://{stream.landing}") as writer:
        own = {"headers": {"a": "é"}, "payload": {"n": 1}, "metadata": b'{"x":1.10}', "ttl_seconds": 90.5}
        writer.write(NewMessage(message_id="m1", stream_name="order-1", **own, **given))
    stream.run(on_arrival_expired="Store")

    (found,) = Reader(stream.table.uri).load_for_resequencer("seq-1", statuses=["RECEIVED", "EXPIRED"])

    assert {name: getattr(found, name) for name in given} == given
    assert found.metadata == '{"x":1.10}'
    assert (found.headers, found.json()) == ({"a": "é"}, {"n": 1})
    assert found.expires_at == AT + timedelta(seconds=90.5)


def test_marks_change_what_is_there_to_resume(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    with Writer(f"file://{stream.landing}", f"file://{stream.update_landing}", clock=lambda: AT) as writer:
        for number in range(1, 5):
            writer.store_received(f"m{number}", "saga-1", stream_name="order-1", payload={"n": number})
        writer.mark_processing("m2")
        writer.mark_completed("m3", {"ok": True})
        writer.mark_failed("m4", "out of stock")
        writer.mark_completed("unknown")
    stream.run()
    store = Reader(stream.table.uri)

    statuses = {m.message_id: m.status for m in store.get_stream_messages("order-1")}
    assert statuses == {"m1": "RECEIVED", "m2": "PROCESSING", "m3": "COMPLETED", "m4": "FAILED"}
    assert [m.message_id for m in store.unfinished()] == ["m1", "m2", "m4"]
    assert [m.message_id for m in store.load_for_correlation("saga-1")] == ["m1"]
    completed, failed = store.get_message("m3"), store.get_message("m4")
    assert (completed.result, failed.error, failed.retries) == (b'{"ok":true}', "out of stock", 1)
    assert stream.pending() == [("unknown", "COMPLETED")]


def test_a_second_message_with_an_id_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    for payload in ("first", "second"):
        with Writer(f"file://{stream.landing}") as writer:
            writer.store_received("m1", stream_name="order-1", payload=payload)
    counts = stream.run()

    assert counts.counts.duplicates == 1
    assert [m.json() for m in Reader(stream.table.uri).get_stream_messages("order-1")] == ["first"]


def test_native_records_are_those_of_a_replay(spark: SparkSession, tmp_path: Path) -> None:
    payloads: list[tuple[bytes | None, str | None]] = [
        (payload, content_type) for payload, content_type in PAYLOADS if payload is None or isinstance(payload, bytes)
    ]
    rows = [
        message(
            number,
            position=number,
            payload=payload,
            content_type=content_type,
            headers={"a": "b"},
            metadata='{"x":1.10}',
            result=b'{"y":2.0}',
            expires_at=AT + timedelta(microseconds=1500 * number),
        )
        for number, (payload, content_type) in enumerate(payloads, 1)
    ]
    table = make_store(tmp_path / "store", rows)

    ours = [native_record(m).decode() for m in Reader(table.uri).get_messages()]
    replayed = to_native(read_messages(spark, Store(table.uri)).orderBy("global_position"), "Base64")

    assert [json.loads(line) for line in ours] == [json.loads(row.value) for row in replayed.collect()]
    assert all(set(Message.__dataclass_fields__) & set(json.loads(line)) for line in ours)


def test_pages_follow_the_order_of_a_real_ingest(spark: SparkSession, tmp_path: Path) -> None:
    stream = Updated(spark, tmp_path)
    with Writer(f"file://{stream.landing}", batch_records=100) as writer:
        for number in range(1000):
            writer.write_message(str(number), f"order-{number % 7}", "Placed", number)
    stream.run(max_files_per_batch=3)

    found = list(Reader(stream.table.uri).get_category_messages("order", batch_size=-1))

    assert [m.json() for m in found] == list(range(1000))
    assert Snapshot(stream.table.uri, Store(stream.table.uri).table("messages")).highest("position") == 142
