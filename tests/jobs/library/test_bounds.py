"""Up to each bound the writer takes a record and the store stores it; past it one refuses, the other sets aside."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore.errors import RecordError
from messagestore.records import Record, message_record, update_record
from messagestore_core.bounds import DEEPEST, LARGEST_NUMBER, LARGEST_VERSION, LONGEST_TEXT, MOST_ATTEMPTS, MOST_KEYS
from support.ingests import START
from support.lifecycles import Updated

LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def keyed(keys: int) -> dict[str, int]:
    return {str(number): number for number in range(keys)}


BOUNDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("schemaVersion", {"schemaVersion": LARGEST_VERSION}, {"schemaVersion": LARGEST_VERSION + 1}),
    ("schemaVersion", {"schemaVersion": 0}, {"schemaVersion": -1}),
    ("sequenceNumber", {"sequenceId": "s", "sequenceNumber": 1}, {"sequenceId": "s", "sequenceNumber": 0}),
    ("sequenceNumber", {"sequenceNumber": LARGEST_NUMBER}, {"sequenceNumber": LARGEST_NUMBER + 1}),
    ("sequenceNumber", {"sequenceNumber": 3, "sequenceSize": 3}, {"sequenceNumber": 4, "sequenceSize": 3}),
    (
        "sequenceEnd",
        {"sequenceNumber": 3, "sequenceSize": 3, "sequenceEnd": True},
        {"sequenceNumber": 2, "sequenceSize": 3, "sequenceEnd": True},
    ),
    ("expectedVersion", {"streamName": "b-1", "expectedVersion": -1}, {"expectedVersion": LARGEST_NUMBER + 1}),
    ("headers", {"headers": {f"h{n}": "x" for n in range(1_000)}}, {"headers": {f"h{n}": "x" for n in range(1_001)}}),
    ("correlationId", {"correlationId": "é" * (LONGEST_TEXT // 2)}, {"correlationId": "é" * (LONGEST_TEXT // 2) + "x"}),
    ("ttl", {"time": LAST, "ttl": timedelta(0)}, {"time": LAST, "ttl": timedelta(seconds=1)}),
    ("ttl", {"time": START, "ttl": LAST - START}, {"time": START, "ttl": LAST - START + timedelta(seconds=1)}),
]


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Updated:
    """A stream that has ingested all records of this file."""
    stream = Updated(spark, tmp_path_factory.mktemp("bounds"))
    within = [written(number, **given).line for number, (_, given, _) in enumerate(BOUNDS)]
    past = [forged(number, past) for number, (_, _, past) in enumerate(BOUNDS)]
    within += [written("deep", metadata=nested(DEEPEST // 2)).line, forged("deepest", metadata=nested(DEEPEST - 1))]
    past += [
        forged("deeper", metadata=nested(DEEPEST)),
        b'{"messageId":"more","streamName":"a-1","metadata":{"1":1,"1":2}}',
    ]
    within += [written("keys", payload=keyed(MOST_KEYS - 10)).line]
    past += [forged("many keys", payload=json.dumps(keyed(MOST_KEYS)).encode())]
    stream.arrive("within.jsonl", b"\n".join(within))
    stream.arrive("past.jsonl", b"\n".join(past))
    stream.tell(update_record("0", "PROCESSING", START, MOST_ATTEMPTS).line)
    stream.run(on_arrival_expired="Store")
    return stream


def written(message_id: object, payload: Any = None, metadata: Any = None, **fields: Any) -> Record:
    return message_record(str(message_id), fields.pop("streamName", "a-1"), payload, fields, metadata)


def forged(message_id: object, fields: dict[str, Any] | None = None, **members: bytes) -> bytes:
    """A record that no writer writes."""
    given = {name: spelled(value) for name, value in (fields or {}).items()}
    head = json.dumps({"messageId": f"past {message_id}", "streamName": "a-1", **given}).encode()
    return b",".join([head[:-1], *(f'"{name}":'.encode() + text for name, text in members.items())]) + b"}"


def spelled(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return f"P{value.days}DT{value.seconds}S"
    return value


def test_a_message_at_a_bound_is_written_and_stored(stored: Updated) -> None:
    expected = {*map(str, range(len(BOUNDS))), "deep", "past deepest", "keys"}
    assert {row["message_id"] for row in stored.messages()} == expected


def test_a_record_past_a_bound_becomes_a_dead_letter(stored: Updated) -> None:
    assert len(stored.dead_letters()) == len(BOUNDS) + 3


@pytest.mark.parametrize(("field", "past"), [(field, past) for field, _, past in BOUNDS])
def test_the_writer_refuses_a_value_past_a_bound_and_names_the_field(field: str, past: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match=field if field != "ttl" else "time and ttl lie behind the year 9999"):
        written("x", **past)


@pytest.mark.parametrize(
    ("words", "payload"),
    [
        ("payload is no JSON value: a key twice", {1: "a", "1": "b"}),
        ("payload is no JSON value: a key twice", [{"a": {None: 1, "null": 2}}]),
        ("the record has more than 100000 keys in objects within one another", keyed(MOST_KEYS)),
        ("the record has more than 100000 keys", {**keyed(MOST_KEYS - 10), "x": [keyed(20)]}),
        ("payload is no JSON value", "\ud800"),
    ],
)
def test_a_payload_that_the_store_would_set_aside_is_refused(words: str, payload: Any) -> None:
    with pytest.raises(RecordError, match=words):
        written("x", payload=payload)


def test_a_payload_that_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(1_200):
        deep = [deep]
    with pytest.raises(RecordError, match="deep"):
        written("x", payload=deep)


def test_bytes_that_are_too_deep_go_as_base64() -> None:
    record = json.loads(written("x", payload=nested(1_200)).line)
    assert base64.b64decode(record["payloadBase64"]) == nested(1_200)


@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))])
def test_a_time_before_the_first_year_is_refused(moment: datetime) -> None:
    with pytest.raises(RecordError, match="time is 0001-01-01T00:00:00"):
        written("x", time=moment)


def test_an_attempt_past_its_bound_is_refused(stored: Updated, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="attempt is 1000001, allowed are 1 to 1000000"):
        update_record("0", "PROCESSING", START, MOST_ATTEMPTS + 1)
