"""The Native record: its fields, and that no part of a payload is lost."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.contract.records import Envelope
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.ingest.envelope import envelope_columns, wire
from messagestore_jobs.native import LineBreaks, to_native
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.source.columns import with_projections
from support.replays import Suspending, files_replay, lines, manifest, objects, records, sent
from support.stores import Row, add_messages, make_store, message, remove_rows

pytestmark = pytest.mark.usefixtures("compiled")

EXACT = b'{"b":1.10,"a":1E2,"big":9007199254740993.0,"s":"\\u00e9\\/ \\" \xc3\xa9","n":null,"z":[],"a2":-0.0}'
PAYLOADS: list[tuple[str | None, bytes | None]] = [
    ("application/json", EXACT),
    (None, b"[1.10]"),
    ("application/json", b'"text"'),
    ("application/vnd.x+JSON; charset=utf-8", b'{"a":1}'),
    ("text/plain", b'{"a":1.0}'),
    ("text/plain", 'quotes " \\ \x00\x1f\x7f \u2028 \U0001f600 \n\r\t'.encode()),
    ("text/plain", b""),
    ("application/octet-stream", bytes(range(256))),
    ("application/json", b"\xff\xfe"),
    ("application/json", b"{'a':1}"),
    ("application/json", b'{"a":1,"a":2}'),
    ("application/json", b'{"a":1} '),
    ("application/json", b"null"),
    ("application/json", b""),
    ("application/json", b'{\n "a": 1.10,\r\n "b": "\\n"\n}'),
    ("application/json", None),
    ("text/plain", b"x" * 1000),
]


def native(spark: SparkSession, rows: list[Row], line_breaks: LineBreaks = "Keep") -> list[str]:
    import pyarrow as pa

    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=MESSAGES))
    return [row.value for row in to_native(frame, line_breaks).collect()]


def read_back(spark: SparkSession, values: list[str], *names: str) -> list[list[Any]]:
    frame = spark.createDataFrame(
        [(value.encode(), "file:///x", i) for i, value in enumerate(values)], "value binary, uri string, offset long"
    )
    read = with_projections(frame, envelope_columns(Envelope(), "JSONLines")).orderBy("offset")
    rows = read.select(wire("reason"), *(wire(name) for name in names)).collect()
    assert [row[0] for row in rows] == [None] * len(values)
    return [list(row)[1:] for row in rows]


@pytest.mark.parametrize("line_breaks", ["Keep", "Base64"])
def test_a_store_that_reads_the_records_has_the_same_bytes(spark: SparkSession, line_breaks: LineBreaks) -> None:
    rows = [message(i, payload=payload, content_type=kind) for i, (kind, payload) in enumerate(PAYLOADS)]
    values = native(spark, rows, line_breaks)
    assert line_breaks == "Keep" or not any("\n" in value or "\r" in value for value in values)
    for (_, payload), (read,) in zip(PAYLOADS, read_back(spark, values, "payload"), strict=True):
        assert read == payload


def test_json_stands_as_it_is_text_as_a_string_other_bytes_as_base64(spark: SparkSession) -> None:
    kinds = [("application/json", EXACT), ("text/plain", b'say "hi"'), ("image/png", b"\x89PNG\xff")]
    values = native(spark, [message(i, payload=payload, content_type=kind) for i, (kind, payload) in enumerate(kinds)])
    assert ',"payload":' + EXACT.decode() in values[0]
    assert json.loads(values[1])["payload"] == 'say "hi"'
    assert base64.b64decode(json.loads(values[2])["payloadBase64"]) == b"\x89PNG\xff"
    assert "payload" not in json.loads(values[2])


def test_one_line_keeps_all_of_json_but_its_line_breaks(spark: SparkSession) -> None:
    (value,) = native(spark, [message(1, payload=b'{\n "a": 1.10,\r\n "b": "\\n"\n}')], "Space")
    assert '"payload":{  "a": 1.10,   "b": "\\n" }' in value


def test_all_columns_are_there_and_nulls_are_not(spark: SparkSession) -> None:
    moment = datetime(2026, 1, 5, 1, 2, 3, 450_000, tzinfo=UTC)
    full = message(
        7, position=3, payload=b"1.50", type_namespace="n", type_revision="2", correlation_id="c", causation_id="d",
        reply_to="r", sequence_id="s", sequence_number=1, sequence_size=2, sequence_end=False, headers={"k": 'v"\\'},
        metadata='{"m": 1.0}', payload_encoding="identity", status="COMPLETED", result=b'{"r":2.50}', error="e",
        retries=2, next_retry_at=moment, ttl="P1D", expires_at=moment, time=moment, updated_at=moment,
        scrubbed_at=moment.replace(microsecond=1),
    )  # fmt: skip
    value, least = native(spark, [full, message(8, payload=None, content_type=None)])
    assert value.endswith(',"headers":{"k":"v\\"\\\\"},"metadata":{"m": 1.0},"payload":1.50,"result":{"r":2.50}}')
    assert json.loads(value) == {
        "messageId": "m7", "streamName": "order-1", "category": "order", "position": 3, "globalPosition": 7,
        "type": "created", "typeNamespace": "n", "typeRevision": "2", "correlationId": "c", "causationId": "d",
        "replyTo": "r", "sequenceId": "s", "sequenceNumber": 1, "sequenceSize": 2, "sequenceEnd": False,
        "contentType": "application/json", "payloadEncoding": "identity", "payloadSize": 4,
        "payloadSha256": hashlib.sha256(b"1.50").hexdigest(), "schemaVersion": 1, "status": "COMPLETED", "error": "e",
        "retries": 2, "ttl": "P1D", "nextRetryAt": "2026-01-05T01:02:03.45Z", "expiresAt": "2026-01-05T01:02:03.45Z",
        "time": "2026-01-05T01:02:03.45Z", "insertedAt": "2026-01-05T00:00:00Z", "updatedAt": "2026-01-05T01:02:03.45Z",
        "scrubbedAt": "2026-01-05T01:02:03.000001Z",
        "source": {"kind": "files", "uri": "file:///landing/a", "offset": 7},
        "headers": {"k": 'v"\\'}, "metadata": {"m": 1.0}, "payload": 1.5, "result": {"r": 2.5},
    }  # fmt: skip
    assert set(json.loads(least)) == {
        "messageId", "streamName", "category", "position", "globalPosition", "type", "schemaVersion", "status",
        "retries", "time", "insertedAt", "source", "headers",
    }  # fmt: skip


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), st.binary(max_size=20), TEXT), min_size=1))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_and_bytes_come_back(spark: SparkSession, given: list[tuple[str, dict[str, str], bytes, str]]) -> None:
    rows = [
        message(i, message_id="m" + text, headers=headers, payload=payload, content_type="text/x", error=error)
        for i, (text, headers, payload, error) in enumerate(given)
    ]
    read = read_back(spark, native(spark, rows), "messageId", "headers", "payload", "error")
    assert read == [["m" + text, headers, payload, error] for text, headers, payload, error in given]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("records") / "{a,b} é" / "store"
    rows = [message(i, payload=payload, content_type=kind) for i, (kind, payload) in enumerate(PAYLOADS, 1)]
    payloads = Objects(f"file://{folder}/payloads", Storage())
    claimed, lost, altered, changed = b'{"claimed":1.10}', b'"lost"', b'"altered"', b'"changed"'
    more = [
        message(20, payload=claimed, headers={"x-job": "own", "kept": "1"}),
        message(21, payload=lost),
        message(22, payload=altered),
        message(23, payload=changed, payload_sha256=hashlib.sha256(b"another").hexdigest()),
    ]
    for row in more[:3]:
        row |= {"payload": None, "payload_uri": f"{payloads.uri}/{row['global_position']:020}"}
    table = make_store(folder, rows, more)
    payloads.write(f"{20:020}", claimed)
    payloads.write(f"{22:020}", b'"alterEd"')
    return table


def test_claim_checked_payloads_are_sent_unless_they_have_changed(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    outcome = run_replay(Run.of(files_replay(table, tmp_path / "out", on_failed="Continue"), spark, Silent()))
    assert sent(tmp_path / "out") == [*range(1, len(PAYLOADS) + 1), 20]
    assert b'"payload":{"claimed":1.10}}' in lines(tmp_path / "out")[-1]
    assert (outcome.progress.replayed, outcome.progress.failed) == (len(PAYLOADS) + 1, 3)
    assert outcome.complete
    assert sum(part["messages"] for part in manifest(tmp_path / "out")["objects"]) == len(PAYLOADS) + 1


@pytest.mark.long
def test_of_payloads_that_left_meanwhile_what_the_store_still_has_is_sent(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    old, new = b'{"name":"secret"}', b'{"name":"[redacted]"}'
    payloads = Objects(f"file://{folder}/payloads", Storage())

    def claim(number: int, name: str, payload: bytes) -> Row:
        row = message(number, payload=payload) | {"payload": None, "payload_uri": f"{payloads.uri}/{name}"}
        payloads.write(name, payload)
        return row

    table = make_store(folder, [])
    add_messages(table.uri, [*(claim(n, f"{n:020}", old) for n in (1, 2, 3)), message(4)])
    document = files_replay(table, tmp_path / "out", on_failed="Continue")
    run_replay(Run.of(document, spark, Silent()), Suspending(0))
    remove_rows(table.uri, "messages", "global_position IN (1, 2)")
    add_messages(table.uri, [claim(2, f"{2:020}-b2", new)])
    for n in (1, 2, 3):
        payloads.delete(f"{n:020}")
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert sent(tmp_path / "out") == [2, 4]
    assert records(tmp_path / "out")[0]["payload"] == json.loads(new)
    assert (outcome.complete, outcome.progress.replayed, outcome.progress.failed) == (True, 2, 2)


def test_arrays_hold_the_same_records(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    run_replay(Run.of(files_replay(table, tmp_path / "lines", on_failed="Continue"), spark, Silent()))
    run_replay(Run.of(files_replay(table, tmp_path / "arrays", "JSON", on_failed="Continue"), spark, Silent()))
    arrays = [record for content in objects(tmp_path / "arrays").values() for record in json.loads(content)]
    assert arrays == records(tmp_path / "lines")
    assert PAYLOADS[14][1] in objects(tmp_path / "arrays")["part-00000000.json"]


def test_marks_are_headers_and_stand_for_nothing_but_what_they_name(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    marks = {
        "x-job": "{job}",
        "x-place": "{streamName}/{position}/{globalPosition}/{messageId}",
        "x-when": "{run} {time}",
        "x-odd": "{} {payload} {{job}} ${position.__class__} \\",
        "x-empty": "",
    }
    run_replay(Run.of(files_replay(table, tmp_path / "out", mark_headers=marks, on_failed="Continue"), spark, Silent()))
    assert records(tmp_path / "out")[-1]["headers"] == {
        "kept": "1",
        "x-job": "job-1",
        "x-place": "order-1/20/20/m20",
        "x-when": "replay-1 2026-03-01T12:00:00.500000Z",
        "x-odd": "{} {payload} {job-1} ${position.__class__} \\",
        "x-empty": "",
    }
