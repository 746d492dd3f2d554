"""What a seal covers, in Python."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_core.seals import COLUMNS, HEADERS, NUMBERS, RECORD, TIMES, is_sealed, seal

AT = datetime(2026, 1, 5, 12, 0, 0, 7, tzinfo=UTC)
COVERED = (
    *("message_id", "stream_name", "type", "type_namespace", "type_revision", "correlation_id", "causation_id"),
    *("reply_to", "sequence_id", "metadata", "content_type", "payload_encoding", "payload_sha256", "ttl", "position"),
    *("global_position", "sequence_number", "sequence_size", "sequence_end", "payload_size", "schema_version"),
    *("expires_at", "time", "inserted_at", "headers", "record"),
)
"""In the order of the values in a seal; a row without a record has nothing of it there."""
KEPT: dict[str, Any] = {
    "key": b"k",
    "value": None,
    "value_is_payload": True,
    "headers": [{"name": "a", "value": b"1"}, {"name": "a", "value": None}],
    "timestamp": 7,
    "timestamp_type": "CreateTime",
}


def row(**given: Any) -> dict[str, Any]:
    texts = {name: f"value of {name}" for name in COLUMNS}
    numbers = dict.fromkeys(NUMBERS, 7) | {"sequence_end": False}
    return {**texts, **numbers, **dict.fromkeys(TIMES, AT), HEADERS: {"b": "1", "a": "é"}, RECORD: KEPT, **given}


def test_a_new_column_is_not_covered() -> None:
    """Otherwise no seal that stores have would be right."""
    assert COLUMNS == COVERED


@pytest.mark.parametrize("name", COLUMNS)
def test_a_change_of_any_covered_column_breaks_the_seal(name: str) -> None:
    sealed = {**row(), "hmac": seal("key", row())}
    other = {**dict.fromkeys(COLUMNS, "other"), **dict.fromkeys(NUMBERS, 8), "sequence_end": True}
    changed = {
        **other,
        **dict.fromkeys(TIMES, AT + timedelta(microseconds=1)),
        HEADERS: {"b": "1", "a": "e"},
        RECORD: {**KEPT, "key": b"l"},
    }
    assert is_sealed(["key"], sealed)
    assert not is_sealed(["key"], {**sealed, name: changed[name]})
    assert not is_sealed(["key"], {**sealed, name: None})


@pytest.mark.parametrize(
    "changed",
    [
        {"key": None},
        {"value": b""},
        {"value_is_payload": False},
        {"headers": KEPT["headers"][::-1]},
        {"headers": KEPT["headers"][:1]},
        {"headers": [KEPT["headers"][0], {"name": "a", "value": b""}]},
        {"timestamp": 8},
        {"timestamp_type": "LogAppendTime"},
    ],
)
def test_a_change_of_any_part_of_a_record_breaks_the_seal(changed: dict[str, Any]) -> None:
    sealed = {**row(), "hmac": seal("key", row())}
    assert not is_sealed(["key"], {**sealed, RECORD: {**KEPT, **changed}})


def test_a_missing_seal_or_one_of_another_key_is_invalid() -> None:
    assert not is_sealed(["key"], {**row(), "hmac": seal("another", row())})
    assert not is_sealed(["key"], {**row(), "hmac": None})


def test_the_order_of_headers_does_not_change_a_seal() -> None:
    assert seal("key", row(headers={"a": "é", "b": "1"})) == seal("key", row(headers=[("b", "1"), ("a", "é")]))


def test_text_can_not_move_from_one_value_to_the_next() -> None:
    moved = row(type="value of typ", type_namespace="evalue of type_namespace")
    assert seal("key", row()) != seal("key", moved)
    assert seal("key", row(headers={})) != seal("key", row(headers=None))
    assert seal("key", row(type="")) != seal("key", row(type=None))


def test_a_seal_from_before_a_new_column_stays_valid() -> None:
    """Seals of rows from before a column was added must stay valid: such rows are read for years."""
    old = defaultdict(lambda: None, message_id="m1", stream_name="order-1", type="created", position=0)
    old["headers"] = {"h": "v"}
    code = "7feed11dcf3d550aacf64ddf61f24a9f0cbad954e1ba9cba3b412251a0bf8c50"
    assert seal("a key", old) == f"v2=cca8f7ab={code}"
    assert is_sealed(["another", "a key"], old | {"hmac": f"v1={code}"})
    assert not is_sealed(["another"], old | {"hmac": f"v1={code}"})


def test_a_seal_is_checked_by_the_key_that_it_names() -> None:
    sealed = {**row(), "hmac": seal("old", row())}
    assert is_sealed(["new", "old"], sealed)
    assert not is_sealed(["new"], sealed)
    assert not is_sealed(["new", "old"], {**sealed, "hmac": seal("new", row())[:12] + sealed["hmac"][12:]})
