"""Formats of files and envelopes of records, good and bad."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Envelope, FieldMapping
from messagestore_core.store.handle import Store
from messagestore_jobs.rows.messages import read_messages
from support.ingests import BYTE_ORDER_MARK, Row, Stream, final_totals, lines, received_in, record

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    """A stream whose counts must add up after each test."""
    stream = Stream(spark, tmp_path)
    yield stream
    assert final_totals(stream).received == received_in(stream.landing, stream.settings.get("format", "JSONLines"))


class Document(NamedTuple):
    name: str
    content: bytes
    stored: list[str]
    set_aside: list[tuple[str, bytes]] = []


A, B = record("a", payload=b'{"n": 1.10}'), record("b")
BROKEN = b"[" + A + b",\n" + B
DOCUMENTS = [
    Document("an object", A, ["a"]),
    Document("an object over many lines", b"\n" + A.replace(b",", b"\n,\r\n") + b"\n", ["a"]),
    Document("an array", b" [\n" + A + b" ,\n" + B + b"]\n", ["a", "b"]),
    Document("an empty array", b"[]", []),
    Document("an empty file", b"", []),
    Document("only white space", b" \n\t\r\n", []),
    Document("a byte order mark", BYTE_ORDER_MARK + b"[" + A + b"]", ["a"]),
    Document("an array cut short behind an element", BROKEN, ["a", "b"], [("Unparseable", b"")]),
    Document("an array cut short in an element", BROKEN[:-9], ["a"], [("Unparseable", B[:-9])]),
    Document("two lines", A + b"\n" + B, ["a", "b"]),
    Document("nothing between two documents", A + B, ["a", "b"]),
    Document("a text sequence", b"\x1e" + A + b"\n\x1e" + B + b"\n", ["a", "b"]),
    Document("a text of a sequence cut short", b"\x1e" + A[:-9] + b"\x1e" + B, ["b"], [("Unparseable", A[:-9])]),
    Document("a bracket without an end", A + b"{" + B, ["a"], [("Unparseable", b"{" + B)]),
    Document("an error within brackets", A + b'{"a":}' + B, ["a", "b"], [("Unparseable", b'{"a":}')]),
    Document("garbage between", A + b" a , b\n" + B, ["a", "b"], [("Unparseable", b"a , b")]),
    Document("arrays in sequence", b"[" + A + b"]\n[" + B + b"]", ["a", "b"]),
    Document("elements that are missing", b"[," + A + b",]" + B, ["a", "b"], [("Unparseable", b"")] * 2),
    Document("garbage after the array", b"[" + A + b"]]", ["a"], [("Unparseable", b"]")]),
    Document("a scalar", b"42", [], [("Unparseable", b"42")]),
    Document("no JSON", b"garbage", [], [("Unparseable", b"garbage")]),
    Document("arrays within", b"[[" + A + b"]," + B + b"]", ["b"], [("Unparseable", b"[" + A + b"]")]),
    Document(
        "scalars within", b"[1," + B + b',null,"x"]', ["b"], [("Unparseable", r) for r in (b"1", b"null", b'"x"')]
    ),
    Document(
        "a key twice in one element",
        b'[{"messageId":"x","messageId":"y"},' + B + b"]",
        ["b"],
        [("Unparseable", b'{"messageId":"x","messageId":"y"}')],
    ),
    Document("no UTF-8", b'[{"a":"\xff"},' + B + b"]", ["b"], [("Unparseable", b'{"a":"\xff"}')]),
]


def test_of_a_json_document_each_element_is_a_record(stream: Stream) -> None:
    stream.settings["format"] = "JSON"
    for document in DOCUMENTS:
        named = document.content.replace(b'"messageId":"a"', b'"messageId":"%s a"' % document.name.encode())
        named = named.replace(b'"messageId":"b"', b'"messageId":"%s b"' % document.name.encode())
        stream.arrive(f"{document.name}.json", named)
    stream.run()
    stored, set_aside = by_file(stream.messages()), by_file(stream.dead_letters())
    for document in DOCUMENTS:
        name = f"{document.name}.json"
        assert [r["message_id"] for r in stored.get(name, [])] == [f"{document.name} {i}" for i in document.stored]
        raws = [(r["reason"], r["raw"].replace(f"{document.name} ".encode(), b"")) for r in set_aside.get(name, [])]
        assert raws == document.set_aside, document.name
    assert {r["payload"] for r in stream.messages()} == {b'{"n": 1.10}', b"{}"}
    for row in (*stream.messages(), *stream.dead_letters()):
        content = Path(row["source"]["uri"].removeprefix("file://")).read_bytes()
        told = row.get("raw", b'{"messageId":"%s"' % str(row["message_id"]).encode())
        assert content[row["source"]["offset"] :].startswith(told)


def test_a_line_with_several_documents_is_told_which_format_reads_it(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(A + B, b"[" + A + b"]", b"1"))
    assert stream.run().counts == IngestCounts(received=3, dead_lettered=3)
    reads = "; source.files.format JSON reads documents one after the other, and the elements of arrays"
    assert [row["detail"] for row in stream.dead_letters()] == [
        f"something follows the object{reads}",
        f"expected a JSON object, found an array{reads}",
        "expected a JSON object, found a number",
    ]


def by_file(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["source"]["uri"].rpartition("/")[2], []).append(row)
    return found


def test_of_a_text_each_line_is_a_payload(stream: Stream) -> None:
    stream.settings |= {
        "format": "Text",
        "envelope": Envelope(format="Custom", fields={"category": FieldMapping(value="log")}),
    }
    path = stream.arrive("a.log", BYTE_ORDER_MARK + b"one\r\n\n two \n\xff\n{\n")
    assert stream.run().counts == IngestCounts(received=4, stored=3, dead_lettered=1)
    rows = stream.messages()
    assert [row["payload"] for row in rows] == [b"one", b" two ", b"{"]
    assert [row["message_id"] for row in rows] == [f"file://{path}#{offset}" for offset in (3, 9, 17)]
    assert {(row["stream_name"], row["content_type"]) for row in rows} == {("log", "text/plain")}
    assert stream.set_aside() == [("Unparseable", b"\xff")]


def test_of_a_text_a_line_can_be_its_own_id(stream: Stream) -> None:
    fields = {
        "messageId": FieldMapping(path="$"),
        "streamName": FieldMapping(value="words"),
        "type": FieldMapping(path="$.a"),
    }
    stream.settings |= {"format": "Text", "envelope": Envelope(format="Custom", fields=fields)}
    stream.arrive("a.log", b"one\ntwo\none\n")
    assert stream.run().counts == IngestCounts(received=3, stored=2, duplicates=1)
    assert [(row["message_id"], row["type"]) for row in stream.messages()] == [("one", None), ("two", None)]


def event(**given: Any) -> bytes:
    full = {"specversion": "1.0", "id": "e1", "source": "/shop", "type": "created", **given}
    return json.dumps({name: value for name, value in full.items() if value is not ...}).encode()


def test_cloud_events_are_stored_and_each_that_lacks_an_attribute_is_set_aside(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(format="CloudEvents")
    full = event(
        id="f#u%l",
        source="/my-shop",
        subject="7-8",
        time="2026-01-05T11:00:00Z",
        datacontenttype="text/plain",
        data="hallo",
        correlationid="c",
        causationid="k",
        expirytime="2027-01-01T00:00:00Z",
        myextension="x",
        number=1,
    )
    lacking = [event(**{name: ...}) for name in ("specversion", "id", "source", "type")]
    wrong = [event(id="v", specversion="0.3"), event(id=""), event(source=""), event(id="n", Region="eu")]
    wrong += [event(id="i" * 600, source="s" * 600), event(id="both", data=1, data_base64="AA==")]
    wrong += [event(id=name, **{name: ""}) for name in ("subject", "datacontenttype", "dataschema", "time")]
    others = [event(id="base64", data_base64="AP8="), event(id="bare"), event(id="named", streamname="orders-1")]
    same_id = [event(id="bare", source="/other"), event(id="bare", source="/other", type="again")]
    stream.arrive("a.jsonl", lines(full, *lacking, *wrong, *others, *same_id))
    assert stream.run().counts == IngestCounts(received=20, stored=5, duplicates=1, dead_lettered=14)
    assert [reason for reason, _ in stream.set_aside()] == ["MissingField"] * 4 + ["InvalidField"] * 10
    details = [row["detail"] for row in stream.dead_letters()]
    assert [words.split()[0] for words in details[:4]] == ["specversion", "id", "source", "type"]
    assert details[4:] == [
        "specversion is 0.3, 1.0 is read",
        "id is empty",
        "source is empty",
        "attribute 'Region' has a name that is not of small letters a to z and digits alone",
        "source and id make an id of 1201 bytes, at most 1024 are allowed",
        "payload and payloadBase64 are both there",
        "subject is empty",
        "datacontenttype is empty",
        "dataschema is empty",
        "time is no RFC 3339 time in the years 1 to 9999",
    ]
    first, base64, bare, named, other = stream.messages()
    assert first["stream_name"] == "/my_shop-7-8"
    assert (first["payload"], first["correlation_id"], first["causation_id"]) == (b"hallo", "c", "k")
    assert first["time"] == datetime(2026, 1, 5, 11, tzinfo=UTC)
    assert first["expires_at"] == datetime(2027, 1, 1, tzinfo=UTC)
    said = {"specversion": "1.0", "myextension": "x", "number": "1"}
    assert first["headers"] == {**said, "source": "/my-shop", "subject": "7-8"}
    assert (base64["payload"], bare["payload"]) == (b"\x00\xff", None)
    assert (bare["stream_name"], named["stream_name"]) == ("/shop", "orders-1")
    assert [row["message_id"] for row in (first, bare, other)] == ["/my-shop#f%23u%25l", "/shop#bare", "/other#bare"]


def test_an_event_that_an_earlier_release_stored_under_its_id_alone_is_known(stream: Stream) -> None:
    stored = {"streamName": "orders-1", "type": "created", "headers": {"specversion": "1.0"}}
    stream.arrive("earlier.jsonl", lines(record("e1", **stored, payload=b"1"), record("e2", **stored, payload=b"2")))
    stream.run()

    stream.settings["envelope"] = Envelope(format="CloudEvents")
    again = event(id="e1", streamname="orders-1", data=1)
    of_others = [event(source="/other", streamname="orders-1", data=7), event(source="/third", data=1)]
    stream.arrive("now.jsonl", lines(again, *of_others, event(id="e3", streamname="orders-1", data=1)))
    assert stream.run().counts == IngestCounts(received=4, stored=3, duplicates=1)
    assert stream.ids() == ["e1", "e2", "/other#e1", "/third#e1", "/shop#e3"]


CUSTOM = {
    "messageId": FieldMapping(path="$.headers['X-Id']"),
    "category": FieldMapping(path="$.kind", default="unknown"),
    "streamId": FieldMapping(path="$.parts[1].id"),
    "type": FieldMapping(value="webhook"),
    "correlationId": FieldMapping(path="$['it\\'s']"),
    "schemaVersion": FieldMapping(value="3"),
    "headers": FieldMapping(path="$.headers"),
    "payload": FieldMapping(path="$.body"),
}


def test_a_custom_envelope_finds_its_fields_by_path_default_and_constant(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(format="Custom", fields=CUSTOM, required=("correlationId",))
    full = b'{"headers":{"X-Id":"1","n":2},"kind":"order","parts":[{"id":0},{"id":"7"}],"it\'s":"c","body":{ "n":1.0}}'
    stream.arrive(
        "a.jsonl",
        lines(
            full,
            b'{"headers":{"X-Id":"2"},"kind":null,"parts":[],"it\'s":true,"type":"other"}',
            b'{"headers":{"X-Id":"3"},"parts":"none"}',
            b'{"headers":[],"it\'s":"c"}',
            b'{"headers":{"X-Id":"5"},"kind":"a-b","it\'s":"c"}',
        ),
    )
    assert stream.run().counts == IngestCounts(received=5, stored=2, dead_lettered=3)
    first, second = stream.messages()
    assert (first["message_id"], first["stream_name"], first["correlation_id"]) == ("1", "order-7", "c")
    assert (first["headers"], first["payload"]) == ({"X-Id": "1", "n": "2"}, b'{ "n":1.0}')
    assert (second["stream_name"], second["correlation_id"], second["payload"]) == ("unknown", "true", None)
    assert {(row["type"], row["schema_version"]) for row in (first, second)} == {("webhook", 3)}
    assert [(r["reason"], r["detail"].split()[0]) for r in stream.dead_letters()] == [
        ("MissingField", "correlationId"),
        ("InvalidField", "headers"),
        ("InvalidStreamName", "the"),
    ]


def test_a_column_that_no_record_of_a_batch_can_have_is_null_beside_other_batches(
    stream: Stream, spark: SparkSession
) -> None:
    stream.arrive("custom.jsonl", b'{"headers":{"X-Id":"1"},"parts":[0,{"id":"7"}]}')
    stream.run(envelope=Envelope(format="Custom", fields=CUSTOM))
    [file] = Store(stream.table.uri).table("messages").file_uris()
    told = set(pq.read_schema(file.removeprefix("file://")).names)
    assert told.isdisjoint({"metadata", "sequence_number", "ttl", "hmac", "payload_uri"})
    assert told > {"schema_version", "correlation_id", "expires_at", "sequence_id"}

    stream.arrive("native.jsonl", record("2", streamName="order-7", metadata={"n": 1}, ttl="P1D", sequenceId="s"))
    stream.run()
    rows = [(row["message_id"], row["metadata"], row["ttl"], row["hmac"]) for row in stream.messages()]
    assert rows == [("1", None, None, None), ("2", '{"n": 1}', "P1D", None)]
    read_by_spark = read_messages(spark, Store(stream.table.uri)).select("message_id", "metadata", "ttl")
    assert sorted(map(tuple, read_by_spark.collect())) == [row[:3] for row in rows]


def test_a_field_that_no_native_record_has_is_counted_or_refused(stream: Stream) -> None:
    replayed = record("replayed", insertedAt="2026-01-05T11:00:00Z", payloadSha256="e3b0", retries=1)
    stream.arrive("a.jsonl", lines(record("plain"), record("odd", corelationId="c", other=[1]), replayed))
    assert stream.run().counts == IngestCounts(received=3, stored=3, unknown_fields=1)

    stream.settings["envelope"] = Envelope(unknown_fields="Refuse")
    stream.arrive("b.jsonl", lines(record("strict"), record("misspelt", corelationId="c")))
    assert stream.run().counts == IngestCounts(received=2, stored=1, dead_lettered=1)
    (letter,) = stream.dead_letters()
    assert (letter["reason"], letter["detail"]) == ("InvalidField", "corelationId is no field of a Native record")
