"""Files and records as others write them."""

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Envelope, FieldMapping, TimeUnit, Unwrap
from messagestore_jobs.driver.execute import check_for_work
from support.ingests import START, Stream, lines, record

pytestmark = pytest.mark.usefixtures("compiled")


NUMBERS = {
    "0": "1970-01-01T00:00:00",
    "1772441100.1234567": "2026-03-02T08:45:00.123456",
    '"1772441100.5"': "2026-03-02T08:45:00.500000",
    "1.7724411E9": "2026-03-02T08:45:00",
    "-1": "1969-12-31T23:59:59",
    "-0.0000001": "1969-12-31T23:59:59.999999",
    "1e-99": "1970-01-01T00:00:00",
    "-62135596800": "0001-01-01T00:00:00",
    "253402300799.999999": "9999-12-31T23:59:59.999999",
}
"""Seconds, and the times that they are."""
NO_NUMBERS = [
    *("-62135596800.000001", "253402300800", "1e30", "1e99", "1e999999999", "1e-999999999", "9" * 1_000),
    *('"2026-03-02T08:45:00Z"', '" 1"', '"+1"', '"1."', '"0x1"', '"NaN"', '""', "true"),
]


def of_time(unit: TimeUnit | None, **more: str) -> Envelope:
    time = FieldMapping(path="$.at", unit=unit, **more)
    fields = {"messageId": FieldMapping(path="$.id"), "category": FieldMapping(value="c"), "time": time}
    return Envelope(format="Custom", fields=fields | {"expiresAt": FieldMapping(path="$.until", unit="Milliseconds")})


def test_a_number_since_1970_is_a_time_of_its_unit(stream: Stream) -> None:
    timed = [b'{"id":"%d","at":%s}' % (n, at.encode()) for n, at in enumerate([*NUMBERS, *NO_NUMBERS, "[]"])]
    stream.arrive("a.jsonl", lines(*timed))
    given = len(NUMBERS)
    counts = stream.run(envelope=of_time("Seconds")).counts
    assert counts == IngestCounts(received=len(timed), stored=given, dead_lettered=len(timed) - given)
    assert [row["time"] for row in stream.messages()] == [
        datetime.fromisoformat(f"{at}+00:00") for at in NUMBERS.values()
    ]
    *numbers, array = stream.dead_letters()
    assert {(row["reason"], row["detail"]) for row in numbers} == {
        ("InvalidField", "time is no number of seconds since 1970 in the years 1 to 9999")
    }
    assert array["detail"] == "time is an array"


def test_a_time_and_its_default_are_read_in_the_unit_of_the_field(stream: Stream) -> None:
    second = Decimal("1772441100.123456")
    sizes: dict[TimeUnit, int] = {"Seconds": 1, "Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}
    for unit, size in sizes.items():
        text = f'{{"id":"{unit}","at":{second * size:f}}}\n{{"id":"{unit} none"}}'
        stream.arrive(f"{unit}.jsonl", text.encode())
        stream.run(envelope=of_time(unit, default=str(size)))
    at = datetime(2026, 3, 2, 8, 45, 0, 123_456, UTC)
    one_second = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert [row["time"] for row in stream.messages()] == [at, one_second] * len(sizes)


def test_an_expiration_may_be_a_number(stream: Stream) -> None:
    until = (START + timedelta(days=1)).timestamp() * 1000
    late = b'{"id":"late","at":"2026-01-05T11:00:00Z","until":1}'
    stream.arrive("a.jsonl", lines(b'{"id":"a","at":"2026-01-05T11:00:00Z","until":%d}' % until, late))
    assert stream.run(envelope=of_time(None)).counts == IngestCounts(received=2, stored=1, dead_lettered=1)
    assert [row["expires_at"] for row in stream.messages()] == [START + timedelta(days=1)]
    assert [row["reason"] for row in stream.dead_letters()] == ["ExpiredOnArrival"]


def test_a_record_within_a_record_has_the_fields_and_the_dead_letter_the_outer_one(stream: Stream) -> None:
    stream.settings["envelope"] = Envelope(unwrap=(Unwrap(path="$.data", encoding="Base64"), Unwrap(path="$.body")))
    inner = record("a", payload=b"[1.10,  2]", corelationId="c")
    packed = base64.b64encode(b'{"body":' + json.dumps(inner.decode()).encode() + b"}")
    good = [b'{"data":"' + packed + b'","messageId":"outer"}', b'{"data":{"body":' + record("b") + b"}}"]
    bad = {
        b'{"messageId":"outer"}': ("MissingField", "unwrap 1, $.data: it is absent or null", None),
        b'{"data":{"body":7}}': ("Unparseable", "unwrap 2, $.body: it is neither an object nor a string", None),
        b'{"data":{"body":{"messageId":"c"}}}': (
            "MissingField",
            "streamName is absent or null, and so is category",
            "c",
        ),
        b'{"data":{"body":"{}"}': ("Unparseable", "the JSON is incomplete", None),
    }
    stream.arrive("a.jsonl", lines(*good, *bad))
    assert stream.run().counts == IngestCounts(received=6, stored=2, dead_lettered=4, unknown_fields=1)
    assert [(row["message_id"], row["payload"]) for row in stream.messages()] == [("a", b"[1.10,  2]"), ("b", b"{}")]
    told = {row["raw"]: (row["reason"], row["detail"], row["message_id"]) for row in stream.dead_letters()}
    assert told == bad


def test_a_payload_may_be_the_whole_record_within(stream: Stream) -> None:
    fields = {"messageId": FieldMapping(path="$.id"), "category": FieldMapping(value="c")}
    fields["payload"] = FieldMapping(path="$")
    stream.arrive("a.jsonl", lines(b'{"after":"{\\"id\\": 1.0}"}'))
    stream.run(envelope=Envelope(format="Custom", fields=fields, unwrap=(Unwrap(path="$.after"),)))
    assert [(row["message_id"], row["payload"]) for row in stream.messages()] == [("1.0", b'{"id": 1.0}')]


def trail(*records: bytes, **others: str) -> bytes:
    """A document with its records in an array."""
    more = "".join(f',"{name}":{value}' for name, value in others.items())
    return b'{"version":"1","Records":[' + b",\n".join(records) + b"]" + more.encode() + b"}"


def test_of_a_document_the_elements_of_the_array_at_a_path_are_records(stream: Stream) -> None:
    stream.settings |= {"format": "JSON", "records_path": ("$.Records", "$['of it'].records", "$")}
    a, b, c, d = (record(name, payload=b"[1.10,  2]") for name in "abcd")
    path = stream.arrive("a.json", trail(a, b))
    stream.arrive("b.json", trail(c, more="1") + b'\n{"of it":{"records":[' + d + b"]}}")
    stream.arrive("c.json", trail() + b"[" + record("e") + b"]")
    assert stream.run().counts == IngestCounts(received=5, stored=5)
    assert stream.ids() == list("abcde")
    first, second = stream.messages()[:2]
    assert {first["payload"], second["payload"]} == {b"[1.10,  2]"}
    assert path.read_bytes()[second["source"]["offset"] :].startswith(b)
    stream.arrive("again.json", trail(b, a))
    assert stream.run().counts == IngestCounts(received=2, duplicates=2)


def test_a_document_without_an_array_at_a_path_is_one_dead_letter(stream: Stream) -> None:
    stream.settings |= {"format": "JSON", "records_path": ("$.Records", "$.records")}
    wrong = {
        b"{}": ("MissingField", "$.Records, $.records are absent or null"),
        b'{"Records":null}': ("MissingField", "$.Records, $.records are absent or null"),
        b'{"records":{}}': ("InvalidField", "$.records is no array"),
        b'{"x":}': ("Unparseable", "it is not JSON: unexpected input before byte 5"),
        record("not an element"): ("MissingField", "$.Records, $.records are absent or null"),
        b"[1]": ("Unparseable", "expected a JSON object, found an array"),
        b'{"Records":': ("Unparseable", "the JSON is incomplete"),
    }
    stream.arrive("a.json", b"\n".join(wrong) + b"\n")
    assert stream.run().counts.dead_lettered == len(wrong)
    assert {row["raw"].strip(): (row["reason"], row["detail"]) for row in stream.dead_letters()} == wrong


def test_damage_behind_records_costs_none_of_them(stream: Stream) -> None:
    stream.settings |= {"format": "JSON", "records_path": ("$.Records",), "after_ingest": "Delete"}
    a, b, c, d, e = (record(name) for name in "abcde")
    stream.arrive("cut.json", trail(a, b)[:-2])
    stream.arrive("torn.json.gz", gzip.compress(trail(c, record("lost")), mtime=0)[:-20])
    stream.arrive("twice.json", trail(d)[:-1] + b',"Records":[' + e + b"]}")
    stream.run()
    assert stream.ids()[:2] == ["a", "b"]
    assert "d" in stream.ids()
    letters = {row["source"]["uri"].rpartition("/")[2]: row for row in stream.dead_letters()}
    assert {name: (row["reason"], row["cut"]) for name, row in letters.items()} == {
        "cut.json": ("Unparseable", False),
        "torn.json.gz": ("Unparseable", True),
        "twice.json": ("Unparseable", False),
    }
    assert letters["twice.json"]["raw"] == b"[" + e + b"]"
    stream.run()
    assert [path.name for path in stream.landing.iterdir()] == ["torn.json.gz"]


def test_only_chosen_files_are_read_and_put_away_and_the_others_are_counted(stream: Stream) -> None:
    stream.settings |= {"include": ("dt=*/**/*.jsonl", "?.jsonl"), "exclude": ("**/old/**",), "after_ingest": "Delete"}
    read = ("a.jsonl", "dt=1/b.jsonl", "dt=1/of/c.jsonl")
    left = ("aa.jsonl", "x/b.jsonl", "dt=1/b.json", "dt=1/old/b.jsonl", "dt=1/old/of/b.jsonl")
    for name in (*read, *left, "_hidden.jsonl"):
        stream.arrive(name, lines(record(name)))
    outcome = stream.run()
    assert (outcome.counts, outcome.lag.skipped_files) == (IngestCounts(received=3, stored=3), len(left))
    assert stream.ids() == list(read)
    stream.run()
    there = {str(path.relative_to(stream.landing)) for path in stream.landing.rglob("*") if path.is_file()}
    assert there == {*left, "_hidden.jsonl"}

    stream.settings["exclude"] = ()
    outcome = stream.run()
    assert (outcome.counts, outcome.lag.skipped_files) == (IngestCounts(received=2, stored=2), 3)


def test_a_look_before_the_run_counts_the_same_files(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("a")))
    stream.arrive("a.manifest", b"x")
    stream.run(include=("*.jsonl",))
    document = stream.document(include=("*.jsonl",))
    idle = check_for_work(document, lambda: START).report
    assert idle.outcome == stream.run(include=("*.jsonl",))
    assert check_for_work(stream.document(), lambda: START).report is None
    none = stream.run(exclude=("**",), source_id="another")
    assert (none.counts.received, none.lag.skipped_files, none.lag.source_found) == (0, 2, True)
