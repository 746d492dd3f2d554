"""JSON as it is read without Spark; the tests of the Java extension read the same texts."""

import re
from pathlib import Path

import pytest

from messagestore_core.json_values import is_json, json_text, steps

TEXTS = Path(__file__).parents[2] / "jobs/extension/json.txt"
BYTE = re.compile(rb"<([0-9a-f]{2})>")
DOCUMENT = b'{"a" : {"b": [1, "\\u00fc", {"c": null, "d e": -1.50}]}, "t": true, "o": { "x" : [ ] } }'


@pytest.mark.parametrize("line", [line for line in TEXTS.read_text().splitlines() if not line.startswith("#")])
def test_each_kind_of_text_is_json_or_not(line: str) -> None:
    kind, text = line.encode().split(b"\t", 1)
    assert is_json(BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text)) is kind.endswith((b"+", b"s"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("$.a.b[0]", b"1"),
        ("$.a.b[1]", "ü".encode()),
        ("$.a.b[2].c", None),
        ("$.a.b[2]['d e']", b"-1.50"),
        ("$.a.b[3]", None),
        ("$.a.b", b'[1, "\\u00fc", {"c": null, "d e": -1.50}]'),
        ("$['o']", b'{ "x" : [ ] }'),
        ("$.t", b"true"),
        ("$.t[0]", None),
        ("$.o[0]", None),
        ("$.a.b.c", None),
        ("$", DOCUMENT),
    ],
)
def test_a_path_leads_to_the_exact_text(path: str, text: bytes | None) -> None:
    assert json_text(DOCUMENT, steps(path)) == text


@pytest.mark.parametrize(("levels", "json"), [(400, True), (401, True), (1000, True), (1001, False), (200_000, False)])
def test_a_document_is_read_as_deep_as_spark_reads_it(levels: int, json: bool) -> None:
    assert is_json(b"[" * levels + b"]" * levels) is json


@pytest.mark.parametrize(("keys", "json"), [(100_000, True), (100_001, False)])
def test_an_object_has_at_most_so_many_keys(keys: int, json: bool) -> None:
    assert is_json(b"{" + b",".join(b'"%d":0' % key for key in range(keys)) + b"}") is json


def test_a_key_twice_is_no_json_however_deep_it_is() -> None:
    twice = b"[" * 500 + b'{"a":1,"\\u0061":2}' + b"]" * 500
    assert not is_json(twice)
    assert not is_json(b'{"a":1,"\\u0061":2}')
