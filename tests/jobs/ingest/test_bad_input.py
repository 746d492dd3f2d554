"""Each kind of bad record: it is counted once, with its reason, and the batch goes on."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.store import dead_letters as table_of_dead_letters
from messagestore_core.store.dead_letters import set_aside
from messagestore_jobs.ingest import batch, job
from messagestore_jobs.ingest import dead_letters as letters_of_batch
from messagestore_jobs.ingest.refusals import Numbers
from support.fields import TEXTS
from support.ingests import START, Row, Stream, adds_up, lines, positions_have_no_gap, received_in, record

pytestmark = pytest.mark.usefixtures("compiled")

PARSERS = ("Source:", "StreamRead", "(code", "start marker", "Illegal base64")
"""Texts that only a reader who knows the parser would understand."""
PORTION = 1 << 20
ALONG = 1 << 15
"""How many bytes of bad lines each Spark task may return."""
LIMIT = 8_192
"""The payload limit in these tests."""


class Bad(NamedTuple):
    """A line that is set aside."""

    name: str
    line: bytes
    reason: str
    detail: str


class Good(NamedTuple):
    """A line that is stored, with these columns."""

    name: str
    line: bytes
    columns: Mapping[str, Any]


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def keys(count: int, within: bytes = b"0") -> bytes:
    """An object with ``count`` keys, whose last value is ``within``."""
    return b"{" + b"".join(b'"%d":0,' % i for i in range(count - 1)) + b'"last":' + within + b"}"


def time(text: str | bytes) -> bytes:
    return record(time=text)


def ttl(text: Any, at: str = "2026-01-05T11:00:00Z") -> bytes:
    return record(time=at, ttl=text)


def stream(name: Any, **fields: Any) -> bytes:
    return record(streamName=name, **fields)


def composed(category: Any, stream_id: Any = ...) -> bytes:
    return record(streamName=..., category=category, streamId=stream_id)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


NO_TIME = "time is no RFC 3339 time"
NO_TTL = "ttl is no ISO 8601 duration"
EXPIRED = "it had expired at 2026-01-05T11:59:59Z, before it arrived at 2026-01-05T12:00:00Z"
NOW = "it had expired at 2026-01-05T12:00:00Z, before it arrived at 2026-01-05T12:00:00Z"

UNPARSEABLE = [
    Bad("cut in half", record()[:30], "Unparseable", "the JSON is incomplete"),
    Bad("only a brace", b"{", "Unparseable", ""),
    Bad("bytes that are no UTF-8", record(type=b'"\xff\xfe"'), "Unparseable", "not UTF-8"),
    Bad("an overlong encoding", record(type=b'"\xc0\x80"'), "Unparseable", "not UTF-8"),
    Bad("a surrogate in UTF-8", record(type=b'"\xed\xa0\x80"'), "Unparseable", "not UTF-8"),
    Bad("a UTF-8 sequence cut short", record(type=b'"\xe2\x82"'), "Unparseable", "not UTF-8"),
    Bad("latin-1 in the payload", record(payload=b'{"a":"\xe9"}'), "Unparseable", "not UTF-8"),
    Bad("an array", b"[" + record() + b"]", "Unparseable", "an array"),
    Bad("an empty array", b"[]", "Unparseable", "an array"),
    Bad("a number", b"42", "Unparseable", "a number"),
    Bad("a string", b'"text"', "Unparseable", "a string"),
    Bad("a null", b"null", "Unparseable", "null"),
    Bad("a boolean", b"true", "Unparseable", "a boolean"),
    Bad("plain words", b"no JSON at all", "Unparseable", "it is not JSON: unexpected input before byte"),
    Bad("two objects on a line", record() + record("m2"), "Unparseable", "follows"),
    Bad("two objects and a comma", record() + b"," + record("m2"), "Unparseable", ""),
    Bad("garbage after one", record() + b" garbage", "Unparseable", ""),
    Bad("a brace too many", record() + b"}", "Unparseable", ""),
    Bad("garbage before one", b"x" + record(), "Unparseable", ""),
    Bad("single quotes", b"{'messageId':'m1','streamName':'a'}", "Unparseable", ""),
    Bad("names without quotes", b'{messageId:"m1",streamName:"a"}', "Unparseable", ""),
    Bad("a comment", b'{"messageId":"m1",/* no */"streamName":"a"}', "Unparseable", ""),
    Bad("a trailing comma", b'{"messageId":"m1","streamName":"a",}', "Unparseable", ""),
    Bad("not a number", record(payload=b"NaN"), "Unparseable", ""),
    Bad("infinity", record(payload=b"-Infinity"), "Unparseable", ""),
    Bad("a leading zero", record(payload=b"007"), "Unparseable", ""),
    Bad("a leading plus", record(payload=b"+1"), "Unparseable", ""),
    Bad("a hexadecimal number", record(payload=b"0x1F"), "Unparseable", ""),
    Bad("a number that ends in a point", record(payload=b"1."), "Unparseable", ""),
    Bad("a bare tab in a string", record(type=b'"a\tb"'), "Unparseable", ""),
    Bad("an escape that is none", record(type=b'"\\x41"'), "Unparseable", ""),
    Bad("half an escape", record(type=b'"\\u00"'), "Unparseable", ""),
    Bad("half a surrogate pair in a header's name", record(headers=b'{"\\ud800":"a"}'), "Unparseable", ""),
    Bad("a NUL byte", record(type=b'"a\x00b"'), "Unparseable", "NUL"),
    Bad("a NUL byte alone", b"\x00", "Unparseable", "NUL"),
    Bad("a bare CR between two", record() + b"\r" + record("m2"), "Unparseable", "follows"),
    Bad("a key twice", record()[:-1] + b',"type":"a","type":"b"}', "Unparseable", "comes twice"),
    Bad("a key twice by an escape", record()[:-1] + b',"type":"a","\\u0074ype":"b"}', "Unparseable", "comes twice"),
    Bad("an unknown key twice", record()[:-1] + b',"x":1,"x":1}', "Unparseable", "comes twice"),
    Bad("a key twice in the payload", record(payload=b'{"a":{"b":1,"b":2}}'), "Unparseable", "comes twice"),
    Bad("a key twice in the headers", record(headers=b'{"a":"1","a":"2"}'), "Unparseable", "comes twice"),
    Bad("a payload nested 5,000 deep", record(payload=nested(5_000)), "Unparseable", "deeper than 1000"),
    Bad(
        "headers nested 5,000 deep", record(headers=b'{"a":' + nested(5_000) + b"}"), "Unparseable", "deeper than 1000"
    ),
    Bad("an unknown member nested 5,000 deep", record(other=nested(5_000)), "Unparseable", "deeper than 1000"),
    Bad("brackets that never close", b"[" * 100_000, "Unparseable", ""),
    Bad("a byte order mark on a later line", b"\xef\xbb\xbf" + record(), "Unparseable", "byte order mark"),
    Bad("too many keys in one object", record(payload=keys(100_001)), "Unparseable", "more than 100000 keys"),
    Bad(
        "too many keys around one another",
        record(payload=keys(60_000, within=keys(60_000))),
        "Unparseable",
        "more than 100000 keys",
    ),
]
MISSING = [
    Bad("no id", record(messageId=...), "MissingField", "messageId"),
    Bad("an id that is null", record(messageId=None), "MissingField", "messageId"),
    Bad("an empty object", b"{}", "MissingField", "messageId"),
    Bad("neither stream nor category", stream(...), "MissingField", "streamName"),
    Bad("a stream and a category of null", stream(None, category=None), "MissingField", "streamName"),
    Bad("a stream id without a category", stream(..., streamId="1"), "MissingField", "streamName"),
    Bad("another spelling of a name", b'{"messageid":"m1","streamName":"a"}', "MissingField", "messageId"),
]
INVALID = [
    Bad("1,001 headers", record(headers=keys(1_001)), "InvalidField", "1001 headers"),
    Bad("an empty id", record(""), "InvalidField", "messageId is empty"),
    Bad("an id that is an object", record(messageId={"a": 1}), "InvalidField", "messageId is an object"),
    Bad("an id that is an array", record(messageId=["a"]), "InvalidField", "messageId is an array"),
    Bad("an id of 1 MB", record("m" * 1_000_000), "InvalidField", "messageId is 1000000 bytes long"),
    Bad("an id of 1,025 bytes", record("m" * 1_025), "InvalidField", "1025 bytes"),
    Bad("a stream name that is an object", stream({"a": 1}), "InvalidField", "streamName is an object"),
    Bad("a stream name of 1,025 bytes", stream("s" * 1_025), "InvalidField", "1025 bytes"),
    Bad("category and id too long together", composed("c" * 1_000, "i" * 1_000), "InvalidField", "1024"),
    Bad("a time that is none", time("yesterday"), "InvalidField", NO_TIME),
    Bad("an empty time", time(""), "InvalidField", NO_TIME),
    Bad("a time that is a number", time(b"1767614400"), "InvalidField", NO_TIME),
    Bad("a time that is a date", time("2026-01-05"), "InvalidField", NO_TIME),
    Bad("a time without a zone", time("2026-01-05T11:00:00"), "InvalidField", NO_TIME),
    Bad("a time with a line break", time("2026-01-05T11:00:00Z\n"), "InvalidField", NO_TIME),
    Bad("a time with a blank", time(" 2026-01-05T11:00:00Z"), "InvalidField", NO_TIME),
    Bad("a time in a zone by name", time("2026-01-05T11:00:00 Europe/Berlin"), "InvalidField", NO_TIME),
    Bad("a month too many", time("2026-13-05T11:00:00Z"), "InvalidField", NO_TIME),
    Bad("a 29 February that was not", time("2025-02-29T11:00:00Z"), "InvalidField", NO_TIME),
    Bad("an hour too many", time("2026-01-05T25:00:00Z"), "InvalidField", NO_TIME),
    Bad("a leap second", time("2016-12-31T23:59:60Z"), "InvalidField", NO_TIME),
    Bad("an offset too large", time("2026-01-05T11:00:00+25:00"), "InvalidField", NO_TIME),
    Bad("the year 10000", time("10000-01-01T00:00:00Z"), "InvalidField", NO_TIME),
    Bad("the year 10000 by offset", time("9999-12-31T23:59:59-01:00"), "InvalidField", NO_TIME),
    Bad("the year 0", time("0000-06-01T00:00:00Z"), "InvalidField", NO_TIME),
    Bad("the year 0 by offset", time("0001-01-01T00:00:00+01:00"), "InvalidField", NO_TIME),
    Bad("a time in other digits", time("\uff12\uff10\uff12\uff16-01-05T11:00:00Z"), "InvalidField", NO_TIME),
    Bad("an expiry that is no time", record(expiresAt="soon"), "InvalidField", "expiresAt is no RFC 3339 time"),
    Bad("a ttl in years", ttl("P1Y"), "InvalidField", NO_TTL),
    Bad("a ttl in months", ttl("P1M"), "InvalidField", NO_TTL),
    Bad("a ttl that says nothing", ttl("P"), "InvalidField", NO_TTL),
    Bad("a ttl that ends in T", ttl("PT"), "InvalidField", NO_TTL),
    Bad("a ttl with days that ends in T", ttl("P1DT"), "InvalidField", NO_TTL),
    Bad("a ttl that is garbage", ttl("a while"), "InvalidField", NO_TTL),
    Bad("an empty ttl", ttl(""), "InvalidField", NO_TTL),
    Bad("a negative ttl", ttl("-P1D"), "InvalidField", NO_TTL),
    Bad("a ttl of minus a day", ttl("P-1D"), "InvalidField", NO_TTL),
    Bad("a ttl in small letters", ttl("p1d"), "InvalidField", NO_TTL),
    Bad("a ttl with a line break", ttl("P1D\n"), "InvalidField", NO_TTL),
    Bad("a ttl that is a number", ttl(60), "InvalidField", NO_TTL),
    Bad("a ttl that is absurdly long", ttl("P99999999999999999999D"), "InvalidField", NO_TTL),
    Bad("time + ttl past 9999", ttl("P3000000D"), "InvalidField", "behind the year 9999"),
    Bad(
        "time + ttl one second past 9999", ttl("PT1S", "9999-12-31T23:59:59.5Z"), "InvalidField", "behind the year 9999"
    ),
    Bad("a sequence number of 0", record(sequenceNumber=0), "InvalidField", "sequenceNumber"),
    Bad("a sequence number of 1.0", record(sequenceNumber=1.0), "InvalidField", "sequenceNumber"),
    Bad("a sequence number with a line break", record(sequenceNumber="1\n"), "InvalidField", "sequenceNumber"),
    Bad("a sequence number past a long", record(sequenceNumber=10**19), "InvalidField", "sequenceNumber"),
    Bad("a sequence size of -1", record(sequenceSize=-1), "InvalidField", "sequenceSize"),
    Bad("a sequence end of 1", record(sequenceEnd=1), "InvalidField", "sequenceEnd"),
    Bad("a schema version past an int", record(schemaVersion=2**31), "InvalidField", "schemaVersion"),
    Bad("a schema version past a long", record(schemaVersion=2**63), "InvalidField", "schemaVersion"),
    Bad("a status of another kind", record(status="DONE"), "InvalidField", "status"),
    Bad("a status in small letters", record(status="received"), "InvalidField", "status"),
    Bad("headers that are an array", record(headers=["a"]), "InvalidField", "headers is an array"),
    Bad("headers that are a string", record(headers="a"), "InvalidField", "headers is a string"),
    Bad("half a surrogate pair in the id", record(messageId=b'"a\\ud800"'), "InvalidField", "surrogate"),
    Bad("half a surrogate pair in a header", record(headers=b'{"a":"\\udc00"}'), "InvalidField", "surrogate"),
    Bad(
        "half a surrogate pair in a text payload",
        record(contentType="text/plain", payload=b'"\\ud83d"'),
        "InvalidField",
        "surrogate",
    ),
    Bad("a payload in Base64 that is none", record(payload=..., payloadBase64="?"), "InvalidField", "base64"),
    Bad("a payload twice", record(payloadBase64="YQ=="), "InvalidField", "both"),
]
STREAMS = [
    Bad("an empty stream name", stream(""), "InvalidStreamName", "empty"),
    Bad("a stream name that starts with -", stream("-1"), "InvalidStreamName", "empty"),
    Bad("an empty category", composed(""), "InvalidStreamName", "empty"),
    Bad("an empty category and an id", composed("", "1"), "InvalidStreamName", "empty"),
    Bad("a category that holds -", composed("a-b"), "InvalidStreamName", "holds -"),
    Bad("a category that holds - and an id", composed("a-b", "1"), "InvalidStreamName", "holds -"),
]
OTHERS = [
    Bad(
        "a payload over the limit", record(payload=b'"' + b"x" * (LIMIT - 1) + b'"'), "PayloadTooLarge", f"{LIMIT + 1}"
    ),
    Bad("a message that has expired", record(expiresAt="2026-01-05T11:59:59Z"), "ExpiredOnArrival", EXPIRED),
    Bad("a message that expires now", record(expiresAt="2026-01-05T12:00:00Z"), "ExpiredOnArrival", NOW),
    Bad("a ttl of nothing", ttl("PT0S"), "ExpiredOnArrival", "had expired at 2026-01-05T11:00:00Z, before"),
    Bad(
        "a ttl that has passed", ttl("PT59M59.9S"), "ExpiredOnArrival", "had expired at 2026-01-05T11:59:59.9Z, before"
    ),
]
BAD = [*UNPARSEABLE, *MISSING, *INVALID, *STREAMS, *OTHERS]

GOOD = [
    Good("an id that is a number", record(messageId=12.50), {"message_id": "12.5"}),
    Good("an id of many digits", record(messageId=b"9007199254740993.0"), {"message_id": "9007199254740993.0"}),
    Good("an id that is true", record(messageId=True), {"message_id": "true"}),
    Good("an id of 1,024 bytes", record("n" * 1_024), {"message_id": "n" * 1_024}),
    Good("an id with blanks and breaks", record(" a\n"), {"message_id": " a\n"}),
    Good("an id with an escaped NUL", record(messageId=b'"nul\\u0000"'), {"message_id": "nul\0"}),
    Good("an id that is a surrogate pair", record(messageId=b'"\\ud83d\\ude00"'), {"message_id": "😀"}),
    Good("an empty type, which message-db takes too", record(type=""), {"type": ""}),
    Good("blanks around the record", b" \t" + record("blanks") + b" \t\r", {"message_id": "blanks"}),
    Good("a bare CR within a record", record("cr").replace(b",", b"\r,", 1), {"message_id": "cr"}),
    Good("a stream without an id", stream("order"), {"stream_name": "order", "category": "order"}),
    Good("a stream that ends with -", stream("order-"), {"stream_name": "order-", "category": "order"}),
    Good("a stream with - and + all over", stream("a--b+-c+d"), {"stream_name": "a--b+-c+d", "category": "a"}),
    Good("a category with +", stream("+a+b-1"), {"category": "+a+b"}),
    Good("a stream name with blanks", stream(" a -1"), {"category": " a "}),
    Good("a stream name of 1,024 bytes", stream("s" * 1_024), {"category": "s" * 1_024}),
    Good("category and id", composed("order", "7-8+9"), {"stream_name": "order-7-8+9", "category": "order"}),
    Good("category alone", composed("order"), {"stream_name": "order", "category": "order"}),
    Good("category and an empty id", composed("order", ""), {"stream_name": "order-", "category": "order"}),
    Good("a stream name beats a category", stream("a-1", category="b-2"), {"stream_name": "a-1", "category": "a"}),
    Good("no time", record(), {"time": START}),
    Good(
        "a time in the year 9999", time("9999-12-31T23:59:59.999999Z"), {"time": utc(9999, 12, 31, 23, 59, 59, 999999)}
    ),
    Good("a time in the year 1", time("0001-01-01T00:00:00Z"), {"time": utc(1, 1, 1)}),
    Good("a time with an offset", time("2026-01-05T12:30:00+01:30"), {"time": utc(2026, 1, 5, 11)}),
    Good("a time in nanoseconds", time("2026-01-05T11:00:00.123456789Z"), {"time": utc(2026, 1, 5, 11, 0, 0, 123456)}),
    Good("a time in small letters", time("2026-01-05t11:00:00z"), {"time": utc(2026, 1, 5, 11)}),
    Good("a 29 February that was", time("2024-02-29T11:00:00Z"), {"time": utc(2024, 2, 29, 11)}),
    Good("a ttl", ttl("P1DT1H1M1.5S"), {"ttl": "P1DT1H1M1.5S", "expires_at": utc(2026, 1, 6, 12, 1, 1, 500_000)}),
    Good("a ttl in weeks", ttl("P2W"), {"expires_at": utc(2026, 1, 19, 11)}),
    Good("a ttl from now", record(ttl="PT1M"), {"expires_at": utc(2026, 1, 5, 12, 1)}),
    Good("an expiry beats a ttl", record(ttl="P1D", expiresAt="2027-01-01T00:00:00Z"), {"expires_at": utc(2027, 1, 1)}),
    Good("a ttl to the end of 9999", ttl("PT0.499999S", "9999-12-31T23:59:59.5Z"), {"ttl": "PT0.499999S"}),
    Good("1,000 headers", record(headers=keys(1_000)), {"payload": b"{}"}),
    Good("a payload of the limit", record(payload=b'"' + b"x" * (LIMIT - 2) + b'"'), {"payload_size": LIMIT}),
    Good("no payload", record(payload=...), {"payload": None, "payload_size": None, "payload_sha256": None}),
    Good("a payload of null", record(payload=None), {"payload": None, "payload_size": None}),
    Good("an empty text", record(contentType="text/plain", payload=""), {"payload": b"", "payload_size": 0}),
    Good("a text", record(contentType="text/plain", payload="a\né"), {"payload": "a\né".encode()}),
    Good("a JSON string", record(payload="a"), {"payload": b'"a"'}),
    Good("a JSON type with parameters", record(contentType="a/b+JSON; x=1", payload="a"), {"payload": b'"a"'}),
    Good("bytes in Base64", record(payload=..., payloadBase64="AP/+"), {"payload": b"\x00\xff\xfe"}),
    Good("an escaped NUL in the payload", record(payload=b'"a\\u0000"'), {"payload": b'"a\\u0000"'}),
    Good("half a surrogate pair in the payload", record(payload=b'"\\ud800"'), {"payload": b'"\\ud800"'}),
    Good("half a surrogate pair in what nobody asks for", record(other=b'"\\ud800"'), {"type": None}),
    Good("a payload nested 900 deep", record(payload=nested(900)), {"payload": nested(900)}),
    Good("a key twice in different objects", record(payload=b'[{"a":1},{"a":1}]'), {"payload": b'[{"a":1},{"a":1}]'}),
    *(
        Good(
            f"the number {number.decode()}", record(payload=b'{"n": %s }' % number), {"payload": b'{"n": %s }' % number}
        )
        for number in (b"1.10", b"1E2", b"9007199254740993.0", b"1e400", b"-0", b"1" * 400, b"0.1e-7")
    ),
    Good(
        "escapes and blanks", record(payload=b'{ "\\u0061\\/" :\t[1 ,2] }'), {"payload": b'{ "\\u0061\\/" :\t[1 ,2] }'}
    ),
    Good(
        "header values that are no strings",
        record(headers=b'{"n":1.10,"o":{"a": 1E2},"b":true,"a":[1, 2],"z":null,"s":"\\u0041"}'),
        {"headers": {"n": "1.10", "o": '{"a": 1E2}', "b": "true", "a": "[1, 2]", "z": "null", "s": "A"}},
    ),
    Good("no headers", record(headers={}), {"headers": {}}),
    Good("metadata as it stands", record(metadata=b'{"n": 1.10}'), {"metadata": '{"n": 1.10}'}),
    Good("a result as it stands", record(result=b"[1E2]"), {"result": b"[1E2]"}),
    Good(
        "numbers as strings",
        record(sequenceNumber="1", sequenceEnd="true"),
        {"sequence_number": 1, "sequence_end": True},
    ),
    Good(
        "a message that failed",
        record(status="FAILED", error="why"),
        {"status": "FAILED", "error": "why", "retries": 1, "next_retry_at": utc(2026, 1, 5, 12, 2)},
    ),
    Good(
        "everything",
        record(
            "everything",
            streamName="order-7",
            **{name: f"any {name}" for name in TEXTS.values()},
            sequenceNumber=2,
            sequenceSize=3,
            sequenceEnd=False,
            contentType="application/avro",
            schemaVersion=4,
            time="2026-01-05T11:00:00Z",
            headers={"h": "v", "x-original-position": "kept"},
            position=17,
            globalPosition=99,
        ),
        {
            "message_id": "everything",
            **{column: f"any {name}" for column, name in TEXTS.items()},
            "sequence_number": 2,
            "sequence_size": 3,
            "sequence_end": False,
            "content_type": "application/avro",
            "schema_version": 4,
            "position": 0,
            "headers": {"h": "v", "x-original-position": "kept", "x-original-global-position": "99"},
            "inserted_at": START,
            "updated_at": None,
            "retries": 0,
            "status": "RECEIVED",
        },
    ),
    Good(
        "positions of a replay without headers",
        record("replayed", streamName="replayed", position=17),
        {"headers": {"x-original-position": "17"}, "position": 0},
    ),
]


def file_name(case: Bad | Good) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in case.name)[:60] + ".jsonl"


def names(case: Bad | Good) -> str:
    return case.name


class Table(NamedTuple):
    """All cases, one file each, after one run."""

    stream: Stream
    outcome: IngestOutcome
    along: list[bytes]
    portions: list[pa.Table]
    messages: dict[str, list[Row]]
    dead_letters: dict[str, list[Row]]


def by_file(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["source"]["uri"].rpartition("/")[2], []).append(row)
    return found


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Each line is between two good lines. Most good cases have id m1, so each gets its own id here."""
    stream = Stream(spark, tmp_path_factory.mktemp("bad input"), {"max_payload_bytes": LIMIT})
    for number, case in enumerate([*BAD, *GOOD]):
        line = case.line
        if isinstance(case, Good):
            line = line.replace(b'"messageId":"m1"', b'"messageId":"case %d"' % number)
        around = record(f"before {number}", streamName="around"), record(f"after {number}", streamName="around")
        stream.arrive(file_name(case), lines(around[0], line, around[1]))
    portions: list[pa.Table] = []
    along: list[bytes] = []

    def brought_along(narrow: pa.Table, unfit: Numbers) -> pa.Table | None:
        found = letters_of_batch.brought_along(narrow, unfit)
        along.extend(found["raw"].to_pylist() if found is not None else [])
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch, "portion_bytes", lambda spark: PORTION)
        patched.setattr(job, "bytes_at_once", lambda spark: ALONG)
        patched.setattr(batch, "brought_along", brought_along)
        patched.setattr(
            table_of_dead_letters, "set_aside", lambda store, rows: (portions.append(rows), set_aside(store, rows))
        )
        outcome = stream.run()
    return Table(stream, outcome, along, portions, by_file(stream.messages()), by_file(stream.dead_letters()))


@pytest.mark.parametrize("case", BAD, ids=names)
def test_a_bad_line_is_set_aside_with_its_reason(ingested: Table, case: Bad) -> None:
    (row,) = ingested.dead_letters[file_name(case)]
    assert row["reason"] == case.reason
    assert case.detail in row["detail"]
    assert len(row["detail"]) < 400
    assert not any(word in row["detail"] for word in PARSERS)
    content = (ingested.stream.landing / file_name(case)).read_bytes()
    offset = row["source"]["offset"]
    assert content[offset : offset + len(row["raw"])] == row["raw"]
    assert row["raw"] == case.line
    assert (row["failed_at"], row["redriven_at"], row["batch"]) == (START, None, "landing/1")


def test_a_bad_line_that_can_be_read_is_found_by_its_id(ingested: Table) -> None:
    """Some come with the verdicts, others later."""
    told = {case: ingested.dead_letters[file_name(case)][0]["message_id"] for case in BAD}
    ids = {case: json.loads(case.line)["messageId"] for case in [*STREAMS, *OTHERS]}
    assert {case: told[case] for case in ids} == ids
    assert [case.name for case in UNPARSEABLE if told[case]] == ["cut in half"]


@pytest.mark.parametrize("case", BAD, ids=names)
def test_lines_around_a_bad_line_are_stored(ingested: Table, case: Bad) -> None:
    before, after = ingested.messages[file_name(case)]
    assert before["message_id"].removeprefix("before ") == after["message_id"].removeprefix("after ")
    assert after["position"] == before["position"] + 1


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_a_line_that_is_just_valid_is_stored_with_its_values(ingested: Table, case: Good) -> None:
    assert file_name(case) not in ingested.dead_letters
    _, row, _ = ingested.messages[file_name(case)]
    assert {name: row[name] for name in case.columns} == case.columns


def test_every_line_is_counted_once(ingested: Table) -> None:
    counts = ingested.outcome.counts
    assert adds_up(counts)
    assert counts.received == received_in(ingested.stream.landing) == 3 * len([*BAD, *GOOD])
    assert counts.stored == len(ingested.stream.messages()) == 2 * len(BAD) + 3 * len(GOOD)
    assert counts.dead_lettered == len(ingested.stream.dead_letters()) == len(BAD)
    assert (ingested.outcome.table.messages, ingested.outcome.table.dead_letters) == (counts.stored, len(BAD))


def test_of_what_is_set_aside_no_more_is_held_at_once_than_a_portion(ingested: Table) -> None:
    largest = max(len(case.line) for case in BAD)
    held = [sum(len(raw) for raw in portion["raw"].to_pylist()) for portion in ingested.portions]
    assert len(held) > 2
    assert max(held) <= PORTION + largest + sum(map(len, ingested.along))
    assert sum(held) == sum(len(case.line) for case in BAD)


def test_rows_that_the_driver_gets_for_dead_letters_are_bounded(ingested: Table) -> None:
    assert 0 < len(ingested.along) < len(BAD)
    assert max(map(len, ingested.along)) < ALONG


def test_positions_have_no_gap_where_a_line_was_set_aside(ingested: Table) -> None:
    assert positions_have_no_gap(ingested.stream.messages())


def test_names_of_cases_are_told_apart() -> None:
    assert len({file_name(case) for case in [*BAD, *GOOD]}) == len([*BAD, *GOOD])
