"""JSON as a store takes it: strict, and unchanged where it is given as bytes."""

import json
from typing import Any

from messagestore.errors import RecordError
from messagestore_core.bounds import DEEPEST, MOST_KEYS
from messagestore_core.json_values import members_once, refuse_constant

JSON = Any
"""A JSON value: None, a bool, a number, a str, a list, or a dict with str keys."""

_WHITE_SPACE = b" \t\r\n"
MOST_LEVELS = 500
"""Deeper payloads that are given as bytes are written as base64."""


def dumped(value: JSON, name: str) -> bytes:
    """The text of a JSON value, on one line.

    Raises:
        RecordError: it is no JSON value, or a store doesn't take it; the message names the field.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        content = text.encode()
        if isinstance(value, dict | list | tuple):
            # Keys 1 and "1" are one key in JSON.
            json.loads(text, object_pairs_hook=members_once)
    except RecursionError:
        raise RecordError(f"{name} is nested too deeply, {DEEPEST} levels are allowed in a record") from None
    except (TypeError, ValueError) as error:
        raise RecordError(f"{name} is no JSON value: {error}") from error
    return content


def check_record(line: bytes) -> None:
    """Refuse a record, by its JSON text, that is nested too deeply or has too many keys.

    Raises:
        RecordError: the message names the bound.
    """
    if line.count(b"[") + line.count(b"{") <= DEEPEST and line.count(b":") <= MOST_KEYS:
        return
    try:
        record = json.loads(line)
    except RecursionError:
        raise RecordError(f"the record is nested too deeply, {DEEPEST} levels are allowed") from None
    if _depth(record) > DEEPEST:
        raise RecordError(f"the record is nested deeper than {DEEPEST} levels")
    if _keys_at_once(record) > MOST_KEYS:
        raise RecordError(f"the record has more than {MOST_KEYS} keys in objects within one another")


def stands_alone(content: bytes) -> bool:
    """Whether bytes are one JSON value that can be put into a one-line record and read back unchanged."""
    bare = content[:1].strip(_WHITE_SPACE) and content[-1:].strip(_WHITE_SPACE)
    return bool(bare) and b"\n" not in content and b"\r" not in content and content != b"null" and is_strict(content)


def is_strict(content: bytes) -> bool:
    """Whether bytes are one JSON value by RFC 8259 of few levels, no key twice, no half of a surrogate pair."""
    try:
        text = content.decode()
        value = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=members_once)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    many = content.count(b"[") + content.count(b"{") > MOST_LEVELS
    return "\0" not in text and not (many and _depth(value) > MOST_LEVELS)


def is_json_type(content_type: str | None) -> bool:
    """Whether a content type (none is application/json) names JSON: …/json or …+json."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    return media.endswith(("/json", "+json"))


def _depth(value: JSON) -> int:
    """How deep objects and arrays are nested; without recursion, as they may be deeper than Python's stack."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [child for one in level for child in (one.values() if isinstance(one, dict) else one)]
    return depth


def _keys_at_once(value: JSON) -> int:
    """The most keys that a reader has seen of the objects that it is inside of; ``value`` is no deeper than DEEPEST."""
    most, inside = 0, [(value, 0)]
    while inside:
        one, seen = inside.pop()
        if isinstance(one, list):
            inside += ((child, seen) for child in one)
        elif isinstance(one, dict):
            most = max(most, seen + len(one))
            inside += ((child, seen + number) for number, child in enumerate(one.values(), 1))
    return most
