"""What CloudEvents 1.0.2 demands of those who read events from Kafka, section by section of its binding.

The cases of CloudEvents' own conformance features are among them.
"""

import json
from collections.abc import Callable
from typing import Any

from messagestore_core.contract.records import Envelope
from support.kafkastreams import KafkaStream
from support.kafkatopics import Record, Topics

EVENT = {"specversion": "1.0", "type": "com.example.someevent", "source": "/mycontext/subcontext"}
TIME = "2018-04-05T03:56:24Z"
SAME_TIME = "2018-04-05T03:56:24+00:00"
NOT_NAMED = "has a name that is not of small letters a to z and digits alone"
NO_CHARACTER = "an attribute has a control character, or one that Unicode reserves"
DATA = b'{"message": "Hello World!"}'

Case = tuple[str, dict[str, Any], dict[str, str], bytes | dict[str, Any] | None, str | dict[str, Any]]

RECORDS: list[Case] = [
    # The section; attributes in headers; other headers; the value, or members of an event in it; the words of a dead
    # letter, or the columns of the message.
    (
        "conformance: binary",
        {"time": TIME},
        {"content-type": "application/json"},
        DATA,
        {"payload": DATA, "time": SAME_TIME, "content_type": "application/json", "type": EVENT["type"]},
    ),
    (
        "conformance: structured",
        {},
        {"content-type": "application/cloudevents+json"},
        {"time": TIME, "datacontenttype": "application/json", "data": {"message": "Hello World!"}},
        {"payload": DATA, "time": SAME_TIME, "content_type": "application/json"},
    ),
    (
        "conformance: structured, with a parameter",
        {},
        {"content-type": "application/cloudevents+json; charset=utf-8"},
        {"datacontenttype": "application/json", "data": {"message": "Hello World!"}},
        {"payload": DATA},
    ),
    # Structured mode is told by the content type, in any case, whatever the headers.
    ("3: modes", {"time": TIME}, {"content-type": "APPLICATION/CloudEvents+JSON"}, {"data": 1}, {"payload": b"1"}),
    ("3: modes", {}, {"content-type": "text/plain"}, b"{}", {"payload": b"{}", "content_type": "text/plain"}),
    ("3: other formats", {}, {"content-type": "application/cloudevents+avro"}, b"Obj\1", "Unparseable"),
    ("3: no batches", {}, {"content-type": "application/cloudevents-batch+json"}, b"[{}]", "Unparseable"),
    ("3.2.1: content type", {"datacontenttype": "a/b"}, {"content-type": "c/d"}, b"1", {"content_type": "c/d"}),
    ("3.2.2: data", {}, {"content-type": "a/b"}, b"\x00\xff", {"payload": b"\x00\xff"}),
    ("3.2.2: no data", {}, {}, None, {"payload": None}),
    ("3.2.3: extensions", {"ext": "x", "other1": "2"}, {}, b"1", {"headers": {"ext": "x", "other1": "2"}}),
    ("3.2.3: UTF-8", {"subject": "é€😀"}, {}, b"1", {"stream_name": f"{EVENT['source']}-é€😀"}),
    # Percent signs encode only in HTTP's headers.
    ("3.2.3: as they came", {"subject": "%E2%82%AC"}, {}, b"1", {"stream_name": f"{EVENT['source']}-%E2%82%AC"}),
    ("3.2.3.1: names", {"some_thing": "x"}, {}, b"1", f"attribute 'some_thing' {NOT_NAMED}"),
    ("3.2.3.1: names", {"": "x"}, {}, b"1", f"attribute '' {NOT_NAMED}"),
    ("naming: data", {"data": "x"}, {}, b"1", "attribute 'data' has the name of an event's data"),
    ("required", {"type": None}, {}, b"1", "type is absent or null"),
    ("required", {"source": ""}, {}, b"1", "source is empty"),
    ("time", {"time": "yesterday"}, {}, b"1", "time is no RFC 3339 time in the years 1 to 9999"),
    ("subject", {"subject": ""}, {}, b"1", "subject is empty"),
    ("types: control characters", {"subject": "a\tb"}, {}, b"1", NO_CHARACTER),
]  # fmt: skip


def kafka_record(number: int, case: Case) -> Record:
    _, attributes, headers, value, _ = case
    own: dict[str, Any] = {"id": f"e{number}", **EVENT}
    if isinstance(value, dict):
        value = json.dumps({**own, **value}).encode()
        own = {"id": "other", "specversion": "1.0"} if attributes else {}
    ce = {f"ce_{name}": text for name, text in {**own, **attributes}.items() if text is not None}
    return Record(value, headers={name: text.encode() for name, text in {**ce, **headers}.items()})


def test_a_reader_of_cloud_events_meets_each_demand_of_the_kafka_binding(
    topics: Topics, stream_of: Callable[..., KafkaStream]
) -> None:
    name = topics.make()
    topics.send(name, *(kafka_record(number, case) for number, case in enumerate(RECORDS)))
    stream = stream_of(name)
    stream.run(envelope=Envelope(format="CloudEvents"))
    refused = {row["source"]["offset"]: (row["reason"], row["detail"]) for row in stream.dead_letters()}
    taken = {row["source"]["offset"]: row for row in stream.messages()}
    for number, (section, *_, due) in enumerate(RECORDS):
        if isinstance(due, str):
            assert due in refused.pop(number, ()), section
            continue
        row = taken.pop(number, None)
        assert row is not None, f"{section}: {refused.get(number)}"
        assert row["message_id"] == f"{EVENT['source']}#e{number}"
        for column, value in due.items():
            found = row[column].isoformat() if column == "time" else row[column]
            assert (value.items() <= found.items()) if column == "headers" else found == value, section
    assert (refused, taken) == ({}, {})
