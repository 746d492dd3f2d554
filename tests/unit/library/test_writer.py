"""What a writer writes, and that a landing folder never shows half a file."""

import base64
import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore.errors import MessageStoreError, RecordError, StorageError
from messagestore.records import Record
from messagestore.writer import FilesSink, NewMessage, Writer
from messagestore_core.bounds import LONGEST_ERROR
from messagestore_core.contract.stores import StorageEntry

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Kept:
    """A sink that keeps its records, or fails on demand."""

    def __init__(self) -> None:
        self.batches: list[list[Record]] = []
        self.fails = False
        self.closed = False

    def write(self, records: Sequence[Record]) -> None:
        if self.fails:
            raise StorageError("no")
        self.batches.append(list(records))

    def close(self) -> None:
        self.closed = True
        if self.fails:
            raise StorageError("no")

    def lines(self) -> list[bytes]:
        return [record.line for batch in self.batches for record in batch]


@pytest.fixture
def messages() -> Kept:
    return Kept()


@pytest.fixture
def updates() -> Kept:
    return Kept()


@pytest.fixture
def writer(messages: Kept, updates: Kept) -> Writer:
    return Writer(messages, updates, clock=lambda: AT)


def written(writer: Writer, sink: Kept) -> list[dict[str, Any]]:
    writer.flush()
    return [json.loads(line) for line in sink.lines()]


def test_write_message_writes_a_native_record(writer: Writer, messages: Kept) -> None:
    writer.write_message("m1", "order-1", "Placed", {"n": 1}, {"correlationStreamName": "cart-1"}, -1)

    assert written(writer, messages) == [
        {
            "messageId": "m1",
            "streamName": "order-1",
            "type": "Placed",
            "expectedVersion": -1,
            "payload": {"n": 1},
            "metadata": {"correlationStreamName": "cart-1"},
        }
    ]


def test_a_message_without_an_id_gets_one_of_its_own(writer: Writer, messages: Kept) -> None:
    ids = [writer.write_message(one, "order-1", "Placed", {}) for one in (None, None, "m1")]

    assert ids[2] == "m1"
    assert len({str(UUID(ids[0])), str(UUID(ids[1]))}) == 2
    assert [record["messageId"] for record in written(writer, messages)] == ids


def test_store_received_has_the_arguments_of_the_pattern(writer: Writer, messages: Kept) -> None:
    writer.store_received("m1", "saga-1", "batch-1", 2, {"a": "b"}, {"n": 1}, 90.5, stream_name="order-1")

    assert written(writer, messages) == [
        {
            "messageId": "m1",
            "streamName": "order-1",
            "correlationId": "saga-1",
            "sequenceId": "batch-1",
            "sequenceNumber": 2,
            "headers": {"a": "b"},
            "ttl": "PT90.500000S",
            "payload": {"n": 1},
        }
    ]


def test_a_new_message_is_written_with_all_that_is_given_and_nothing_else(writer: Writer, messages: Kept) -> None:
    writer.write(
        NewMessage(
            message_id="m1",
            stream_name="order-1",
            correlation_id="saga-1",
            sequence_id="batch-1",
            sequence_number=2,
            sequence_size=3,
            headers={"a": "b"},
            payload="text",
            ttl_seconds=90.5,
            content_type="text/plain",
            time=datetime(2026, 1, 5, 13, tzinfo=timezone(timedelta(hours=1))),
        )
    )

    assert written(writer, messages) == [
        {
            "messageId": "m1",
            "streamName": "order-1",
            "correlationId": "saga-1",
            "sequenceId": "batch-1",
            "sequenceNumber": 2,
            "sequenceSize": 3,
            "headers": {"a": "b"},
            "contentType": "text/plain",
            "ttl": "PT90.500000S",
            "time": "2026-01-05T12:00:00Z",
            "payload": "text",
        }
    ]


def test_marks_write_status_updates_in_order(writer: Writer, updates: Kept) -> None:
    writer.mark_processing("m1")
    writer.mark_completed("m1", {"ok": True})
    writer.mark_completed("m2")
    writer.mark_failed("m3", "x" * (LONGEST_ERROR + 1), attempt=2)
    writer.retry("m4")
    writer.retry("m4", at=datetime(2026, 1, 6, tzinfo=UTC))
    writer.pause("m5")
    writer.resume("m5")

    time = "2026-01-05T12:00:00Z"
    assert written(writer, updates) == [
        {"messageId": "m1", "status": "PROCESSING", "time": time},
        {"messageId": "m1", "status": "COMPLETED", "time": time, "result": {"ok": True}},
        {"messageId": "m2", "status": "COMPLETED", "time": time},
        {"messageId": "m3", "status": "FAILED", "time": time, "attempt": 2, "error": "x" * LONGEST_ERROR},
        {"messageId": "m4", "status": "RETRY", "time": time},
        {"messageId": "m4", "status": "RETRY", "time": "2026-01-06T00:00:00Z"},
        {"messageId": "m5", "status": "PAUSE", "time": time},
        {"messageId": "m5", "status": "RESUME", "time": time},
    ]


def test_numbers_and_times_may_be_texts_which_the_store_judges(writer: Writer, messages: Kept) -> None:
    texts: dict[str, Any] = {"sequence_number": "3", "sequence_size": "12", "time": "2026-01-05T12:00:00Z"}
    writer.write(NewMessage(message_id="m1", stream_name="order-1", ttl_seconds=1, **texts))
    writer.write(NewMessage(message_id="m2", stream_name="order-1", **{**texts, "sequence_number": 3}))

    first, second = written(writer, messages)
    assert (first["sequenceNumber"], first["sequenceSize"], first["ttl"]) == ("3", "12", "PT1S")
    assert second["sequenceNumber"] == 3


def test_updates_need_a_place_of_their_own(messages: Kept) -> None:
    with pytest.raises(MessageStoreError, match="no place for status updates"):
        Writer(messages).mark_processing("m1")


@pytest.mark.parametrize("payload", [b'{"a":1.10,"b":1E2,"c":"\\u00e9\\/"}', b"[9007199254740993.0]", b'"x"'])
def test_json_bytes_stand_in_the_record_as_they_are(writer: Writer, messages: Kept, payload: bytes) -> None:
    writer.write_message("m1", "order-1", "Placed", payload)
    writer.flush()

    assert b'"payload":' + payload + b"}" in messages.lines()[0]


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":\n1}',
        b' {"a":1}',
        b"null",
        b"",
        b'{"a":1,"a":2}',
        b"NaN",
        b"\xff",
        b'"\\ud800"',
        b"{'a':1}",
        b'{"a":1}{}',
        b"[" * 600 + b"]" * 600,
        b"[" * 100_000,
    ],
)
def test_bytes_that_would_not_come_back_the_same_go_as_base64(writer: Writer, messages: Kept, payload: bytes) -> None:
    writer.write_message("m1", "order-1", "Placed", payload)

    (record,) = written(writer, messages)
    assert base64.b64decode(record["payloadBase64"]) == payload
    assert "payload" not in record


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode(errors="replace")))
def test_any_bytes_make_one_line_that_holds_them(payload: bytes) -> None:
    messages = Kept()
    writer = Writer(messages)
    writer.write(NewMessage(message_id="m1", stream_name="a-1", payload=payload, content_type="text/plain"))

    (record,) = written(writer, messages)
    assert b"\n" not in messages.lines()[0]
    found = record["payload"].encode() if "payload" in record else base64.b64decode(record["payloadBase64"])
    assert found == payload


def test_what_the_store_would_set_aside_is_refused(writer: Writer, messages: Kept) -> None:
    with pytest.raises(RecordError, match="messageId is empty"):
        writer.write_message("", "order-1", "Placed", None)
    with pytest.raises(RecordError, match="streamName '-1' has no category"):
        writer.write_message("m1", "-1", "Placed", None)
    with pytest.raises(RecordError, match="messageId is longer than 1024 bytes"):
        writer.write_message("é" * 513, "order-1", "Placed", None)
    with pytest.raises(RecordError, match="payload is no JSON value"):
        writer.write_message("m1", "order-1", "Placed", {"a": float("nan")})
    with pytest.raises(RecordError, match="metadata is no JSON text"):
        writer.write_message("m1", "order-1", "Placed", None, b"{")
    with pytest.raises(RecordError, match="sequenceNumber is 0, allowed are 1 to"):
        writer.store_received("m1", sequence_no=0, stream_name="order-1")
    with pytest.raises(RecordError, match="time has no time zone"):
        writer.write(NewMessage(message_id="m1", stream_name="order-1", time=datetime(2026, 1, 1)))
    with pytest.raises(RecordError, match="type is None"):
        writer.write_message("m1", "order-1", None, None)  # type: ignore[arg-type]
    for wrong, said in (
        ({"expected_version": True}, "expectedVersion is of type bool, not int"),
        ({"schema_version": 1.0}, "schemaVersion is of type float, not int"),
        ({"sequence_end": 1}, "sequenceEnd is of type int, not bool"),
        ({"expires_at": timedelta(days=1)}, "expiresAt is of type timedelta, not datetime"),
        ({"headers": [("a", "b")]}, "headers is of type list, not Mapping"),
    ):
        with pytest.raises(RecordError, match=said):
            writer.write(NewMessage(message_id="m1", stream_name="order-1", **wrong))
    with pytest.raises(RecordError, match=r"ttl is negative"):
        writer.store_received("m1", stream_name="order-1", ttl_seconds=-1)
    for nothing in ("5", float("nan")):
        with pytest.raises(RecordError, match=r"ttl is '?(5|nan)'?, and no number of seconds"):
            writer.store_received("m1", stream_name="order-1", ttl_seconds=nothing)
    assert written(writer, messages) == []


def test_a_batch_is_full_by_records_or_by_bytes(messages: Kept) -> None:
    by_records = Writer(messages, batch_records=2)
    for number in range(5):
        by_records.write_message(f"m{number}", "order-1", "Placed", None)
    assert [len(batch) for batch in messages.batches] == [2, 2]

    sink = Kept()
    by_bytes = Writer(sink, batch_bytes=1000)
    by_bytes.write_message("m1", "order-1", "Placed", "x" * 1000)
    assert [len(batch) for batch in sink.batches] == [1]


def test_records_that_could_not_be_written_are_written_by_the_next_flush(writer: Writer, messages: Kept) -> None:
    writer.write_message("m1", "order-1", "Placed", None)
    messages.fails = True
    with pytest.raises(StorageError):
        writer.flush()
    messages.fails = False

    assert [record["messageId"] for record in written(writer, messages)] == ["m1"]
    writer.flush()
    assert len(messages.batches) == 1


def test_leaving_the_with_block_writes_all_records(messages: Kept, updates: Kept) -> None:
    with Writer(messages, updates) as writer:
        writer.write_message("m1", "order-1", "Placed", None)
        writer.mark_processing("m1")

    assert (len(messages.lines()), len(updates.lines())) == (1, 1)
    assert messages.closed
    assert updates.closed


@pytest.mark.parametrize("failing", ["messages", "updates"])
def test_a_sink_is_closed_also_if_the_other_one_fails(messages: Kept, updates: Kept, failing: str) -> None:
    writer = Writer(messages, updates)
    {"messages": messages, "updates": updates}[failing].fails = True

    with pytest.raises(StorageError):
        writer.close()
    assert (messages.closed, updates.closed) == (True, True)


def test_each_batch_is_a_file_whose_name_sorts_behind_those_before(tmp_path: Path) -> None:
    with Writer(str(tmp_path / "landing"), batch_records=10) as writer:
        for number in range(95):
            writer.write_message(f"m{number}", "order-1", "Placed", number)

    files = sorted((tmp_path / "landing").iterdir())
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    assert len(files) == 10
    assert [json.loads(line)["messageId"] for line in lines] == [f"m{number}" for number in range(95)]


def test_names_rise_though_the_clock_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = FilesSink(f"file://{tmp_path}")
    for now in (5_000_000, 3_000_000, 4_000_000):
        monkeypatch.setattr("time.time_ns", lambda now=now: now)
        sink.write([Record("a", b"%d" % now)])

    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == [b"5000000\n", b"3000000\n", b"4000000\n"]


def test_a_file_that_can_not_be_finished_is_never_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def full_disk(_: int) -> None:
        seen.extend(path.name for path in tmp_path.iterdir())
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    writer = Writer(f"file://{tmp_path}")
    writer.write_message("m1", "order-1", "Placed", None)

    with pytest.raises(StorageError, match="can't be written: No space left on device"):
        writer.flush()
    assert all(name.startswith(".") for name in seen)
    assert seen
    assert list(tmp_path.iterdir()) == []


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    with Writer(f"file://{tmp_path}", batch_records=7) as writer:

        def write(worker: int) -> None:
            for number in range(50):
                writer.write_message(f"{worker}-{number}", "order-1", "Placed", None)

        threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    lines = [line for file in tmp_path.iterdir() for line in file.read_bytes().splitlines()]
    assert len({json.loads(line)["messageId"] for line in lines}) == len(lines) == 200


def test_a_writer_whose_second_sink_is_refused_keeps_none_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    (tmp_path / "ca.pem").write_text("an authority")
    storage = [StorageEntry(bucket="lake", ca_file=str(tmp_path / "ca.pem"))]
    given = Kept()
    for sink in (f"file://{tmp_path}", given):
        with pytest.raises(MessageStoreError, match="no URI") as refused:
            Writer(sink, "", storage=storage)
        # The error holds what was opened, which nobody has collected.
        assert "SSL_CERT_FILE" not in os.environ, refused
    assert not given.closed
