"""Old messages translated to the envelope's current version, row by row and table by table."""

from typing import Any

import pyarrow as pa
import pytest

from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.versions import json_text, translate_row, translate_table

FIRST = Translator(
    from_version=0,
    fields={
        "correlationId": FieldSource(rename="causationId"),
        "typeNamespace": FieldSource(default="shop"),
        "typeRevision": FieldSource(value="1"),
        "replyTo": FieldSource(path="$.payload.answer['to']", default="nobody"),
    },
    headers={"X-Tenant": FieldSource(rename="tenant"), "X-Region": FieldSource(path="$.metadata.region")},
)
SECOND = Translator(from_version=1, fields={"type": FieldSource(rename="typeNamespace")})


def row(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(MESSAGES.names), **given}


def test_a_translator_says_what_differs_and_all_else_stays() -> None:
    old = row(
        causation_id="order-1",
        type="Placed",
        payload=b'{"answer": {"to": "desk"}}',
        headers={"tenant": "north", "other": "x"},
        metadata='{"region": "eu"}',
    )
    assert translate_row(old, [FIRST]) == {
        **old,
        "correlation_id": "order-1",
        "causation_id": None,
        "type_namespace": "shop",
        "type_revision": "1",
        "reply_to": "desk",
        "headers": {"X-Tenant": "north", "X-Region": "eu", "other": "x"},
        "schema_version": 1,
    }


def test_translators_follow_each_other_whatever_their_order() -> None:
    new = translate_row(row(type_namespace="kept", schema_version=0), [SECOND, FIRST])
    assert (new["type"], new["type_namespace"], new["schema_version"]) == ("kept", None, 2)


def test_a_row_of_a_version_without_a_translator_stays() -> None:
    newest = row(schema_version=2, type="Placed", headers={"tenant": "north"})
    assert translate_row(newest, [FIRST, SECOND]) == newest


def test_names_may_be_exchanged() -> None:
    swap = Translator(
        from_version=0, fields={"type": FieldSource(rename="replyTo"), "replyTo": FieldSource(rename="type")}
    )
    new = translate_row(row(type="a", reply_to="b"), [swap])
    assert (new["type"], new["reply_to"]) == ("b", "a")


def test_a_table_is_translated_where_it_is_old() -> None:
    base = {"message_id": "m", "stream_name": "s", "category": "s", "position": 0, "global_position": 1}
    rest = {"status": "RECEIVED", "retries": 0, "payload": b"{}"}
    rows = [row(**base, **rest, schema_version=version, causation_id="c") for version in (2, None, 1)]
    table = pa.Table.from_pylist(rows, MESSAGES.remove_metadata())
    new = translate_table(table, [FIRST, SECOND])
    assert new.schema == table.schema
    assert new["correlation_id"].to_pylist() == [None, "c", None]
    assert new["schema_version"].to_pylist() == [2, 2, 2]
    assert new["payload"].to_pylist() == table["payload"].to_pylist()
    assert translate_table(table, []) is table


@pytest.mark.parametrize(
    ("document", "path", "found"),
    [
        (b'{"a": {"b": [1, 1.10]}}', ["a", "b", 1], "1.10"),
        (b' { "a" : "x\\n\\u00e9" } ', ["a"], "x\né"),
        (b'{"a": {"b" :  1E2 }}', ["a"], '{"b" :  1E2 }'),
        (b"[true]", [0], "true"),
        (b'"text"', [], "text"),
        (b'{"a": null}', ["a"], None),
        (b'{"a": 1}', ["b"], None),
        (b'{"a": 1}', [0], None),
        (b"[]", [0], None),
        (b'{"a": 1, "a": 1}', ["a"], None),
        (b'{"b": {"c": 1, "c": 2}, "a": 1}', ["a"], None),
        (b'{"a": NaN}', ["a"], None),
        (b'{"a": "\\ud800"}', ["a"], None),
        (b'{"a": 1} x', ["a"], None),
        (b"\xff", [], None),
        (None, [], None),
    ],
)
def test_a_path_finds_the_exact_text(document: bytes | None, path: list[str | int], found: str | None) -> None:
    assert json_text(document, path) == found
