"""What CloudEvents 1.0.2 demands of those who read events, section by section: the core and the JSON format."""

import base64
import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_core.contract.records import Envelope
from support.ingests import Stream

REQUIRED = {"specversion": "1.0", "source": "/shop", "type": "created"}
LARGEST, LEAST = 2**31 - 1, -(2**31)
NO_TYPE = "and neither a string, a boolean nor a whole number of 32 bits"
NO_CHARACTER = "an attribute has a control character, or one that Unicode reserves"
NOT_NAMED = "has a name that is not of small letters a to z and digits alone"
NO_TIME = "time is no RFC 3339 time in the years 1 to 9999"

EVENTS: list[tuple[str, bytes | dict[str, Any], str | dict[str, Any]]] = [
    # The section, the members beside the required ones (or the whole record), and what a dead letter says or the
    # columns of the message.
    ("id: required", {"id": None}, "id is absent or null"),
    ("id: not empty", {"id": ""}, "id is empty"),
    ("source: required", {"source": None}, "source is absent or null"),
    ("source: not empty", {"source": ""}, "source is empty"),
    ("specversion: required", {"specversion": None}, "specversion is absent or null"),
    ("specversion: not empty", {"specversion": ""}, "specversion is empty"),
    ("specversion: 1.0", {"specversion": "1.0.2"}, "specversion is 1.0.2, 1.0 is read"),
    ("type: required", {"type": None}, "type is absent or null"),
    ("type: not empty", {"type": ""}, "type is empty"),
    ("dataschema: not empty", {"dataschema": ""}, "dataschema is empty"),
    ("subject: not empty", {"subject": ""}, "subject is empty"),
    ("time: RFC 3339", {"time": "2018-04-05"}, NO_TIME),
    ("time: RFC 3339", {"time": "Thu, 05 Apr 2018 17:31:00 GMT"}, NO_TIME),
    ("time: RFC 3339", {"time": "2018-04-05t17:31:00.5+02:00"}, {"time": "2018-04-05T15:31:00.500000+00:00"}),
    ("naming: letters", {"someThing": "x"}, f"attribute 'someThing' {NOT_NAMED}"),
    ("naming: digits", {"some-thing": "x"}, f"attribute 'some-thing' {NOT_NAMED}"),
    ("naming: letters", {"é": "x"}, f"attribute 'é' {NOT_NAMED}"),
    ("naming: one character", {"": "x"}, f"attribute '' {NOT_NAMED}"),
    ("naming: taken", {"a1": "x", "1a": "y"}, {"headers": {"a1": "x", "1a": "y"}}),
    ("types: control characters", {"subject": "a\nb"}, NO_CHARACTER),
    ("types: control characters", {"ext": "\x00"}, NO_CHARACTER),
    ("types: control characters", {"ext": "\x9f"}, NO_CHARACTER),
    ("types: noncharacters", {"ext": "\ufdd0"}, NO_CHARACTER),
    ("types: noncharacters", {"type": "\U0001ffff"}, NO_CHARACTER),
    ("types: surrogates", {"subject": "\udead"}, "streamId holds half of a surrogate pair, which is no character"),
    ("types: surrogates", {"ext": "\U000102ad \U0001f600 \xa0"}, {"headers": {"ext": "\U000102ad \U0001f600 \xa0"}}),
    ("types: Boolean", {"one": True, "two": False}, {"headers": {"one": "true", "two": "false"}}),
    ("types: Integer", {"one": LARGEST, "two": LEAST}, {"headers": {"one": str(LARGEST), "two": str(LEAST)}}),
    ("types: Integer", {"one": LARGEST + 1}, f"attribute 'one' is a number, {NO_TYPE}"),
    ("types: Integer", {"one": LEAST - 1}, f"attribute 'one' is a number, {NO_TYPE}"),
    ("JSON 2.2: Integer", {"one": 1.0}, f"attribute 'one' is a number, {NO_TYPE}"),
    ("JSON 2.2: no structures", {"one": {}}, f"attribute 'one' is an object, {NO_TYPE}"),
    ("JSON 2.2: no structures", {"one": []}, f"attribute 'one' is an array, {NO_TYPE}"),
    ("JSON 2.2: String", {"id": 7}, "messageId is a number, expected a string"),
    ("JSON 2.2: String", {"specversion": 1.0}, f"attribute 'specversion' is a number, {NO_TYPE}"),
    ("JSON 2.2: String", {"time": 1522949460}, "time is a number, expected a string"),
    ("JSON 2.2: null is absent", {"subject": None, "time": None, "ext": None, "data": None}, {"headers": {}}),
    ("JSON 3: one object", b'"an event"', "expected a JSON object, found a string"),
    ("JSON 3: a member once", b'{"id":"1","id":"2"}', "key 'id' comes twice in one object"),
    ("JSON 3.1: not both", {"data": 1, "data_base64": "AA=="}, "payload and payloadBase64 are both there"),
    ("JSON 3.1.2: base64", {"data_base64": "?"}, "payloadBase64 is no base64"),
    ("JSON 3.1.2: base64", {"data_base64": 1}, "payloadBase64 is a number, expected a string"),
    # Nothing is assumed of bytes whose type is not told.
    ("JSON 3.1.2: base64", {"data_base64": "AP8="}, {"payload": "AP8=", "content_type": "application/octet-stream"}),
    (
        "JSON 3.1.2: base64",
        {"data_base64": "eyB9", "datacontenttype": "application/json"},
        {"payload": "eyB9", "content_type": "application/json"},
    ),
    ("JSON 3.1.2: a JSON value", {"data": {"a": [1]}}, {"payload": b'{"a": [1]}', "content_type": "application/json"}),
    # A string of JSON is a string: it is not read as a document.
    ("JSON 3.1.2: a JSON string", {"data": "{}"}, {"payload": b'"{}"'}),
    ("JSON 3.1.2: a JSON string", {"data": "{}", "datacontenttype": "a/b+JSON; x=y"}, {"payload": b'"{}"'}),
    ("JSON 3.1.2: a text", {"data": "<much/>", "datacontenttype": "application/xml"}, {"payload": b"<much/>"}),
    ("datacontenttype: any case", {"data": "{}", "datacontenttype": "APPLICATION/JSON"}, {"payload": b'"{}"'}),
    ("datacontenttype: any case", {"data": "a", "datacontenttype": "TEXT/Plain; CharSet=utf-8"}, {"payload": b"a"}),
    ("datacontenttype: without data", {"datacontenttype": "text/xml"}, {"content_type": "text/xml", "payload": None}),
    # What HTTP encodes with percent signs is not encoded elsewhere.
    ("HTTP 3.1.3.2: only there", {"subject": "Euro%20%E2%82%AC"}, {"stream_name": "/shop-Euro%20%E2%82%AC"}),
]


def record(number: int, given: bytes | dict[str, Any]) -> bytes:
    """An event whose id is its number; the attribute None that is required is left out."""
    if isinstance(given, bytes):
        return given
    return json.dumps({"id": f"e{number}", **REQUIRED, **given}).encode()


def shown(value: Any) -> Any:
    """A column's value as the table has it: bytes that are no text in base64."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_a_reader_of_cloud_events_meets_each_demand_of_the_standard(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"envelope": Envelope(format="CloudEvents")})
    stream.arrive("a.jsonl", b"".join(record(n, given) + b"\n" for n, (_, given, _) in enumerate(EVENTS)))
    stream.run()
    refused = {row["raw"]: row["detail"] for row in stream.dead_letters()}
    taken = {row["message_id"]: row for row in stream.messages()}
    for number, (section, given, due) in enumerate(EVENTS):
        if isinstance(due, str):
            assert refused.pop(record(number, given), None) == due, f"{section}: {given}"
            continue
        row = taken.pop(f"/shop#e{number}", None)
        assert row is not None, f"{section}: {refused.get(record(number, given))}"
        for column, value in due.items():
            found = shown(row[column])
            if column == "headers":
                found = {name: text for name, text in found.items() if name not in ("specversion", "source", "subject")}
            expected = base64.b64decode(value) if column == "payload" and isinstance(value, str) else value
            assert found == expected, f"{section}: {given}"
    assert (refused, taken) == ({}, {})
