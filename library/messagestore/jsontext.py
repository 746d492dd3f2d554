"""JSON as a store takes it: strict, and unchanged where it is given as bytes."""

import json
from typing import Any

from messagestore.errors import RecordError

JSON = Any
"""A JSON value: None, a bool, a number, a str, a list, or a dict with str keys."""

_WHITE_SPACE = b" \t\r\n"
_DEPTH = 500
"""Deeper payloads are written as base64: a whole record may be nested 1000 levels deep."""


def dumped(value: JSON, name: str) -> bytes:
    """The text of a JSON value, on one line.

    Raises:
        RecordError: it is no JSON value; the message names the field.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"{name} is no JSON value: {error}") from error


def stands_alone(content: bytes) -> bool:
    """Whether bytes are one JSON value that can be put into a one-line record and read back unchanged."""
    bare = content[:1].strip(_WHITE_SPACE) and content[-1:].strip(_WHITE_SPACE)
    return bool(bare) and b"\n" not in content and b"\r" not in content and content != b"null" and is_strict(content)


def is_strict(content: bytes) -> bool:
    """Whether bytes are one JSON value by RFC 8259, with no key twice and no half of a surrogate pair."""
    try:
        text = content.decode()
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    many = content.count(b"[") + content.count(b"{") > _DEPTH
    return "\0" not in text and not (many and _depth(value) > _DEPTH)


def is_json_type(content_type: str | None) -> bool:
    """Whether a content type (none is application/json) names JSON: …/json or …+json."""
    media = (content_type or "application/json").partition(";")[0].strip().lower()
    return media.endswith(("/json", "+json"))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key twice")
    return found


def _depth(value: JSON) -> int:
    """How deep a value is nested; without recursion, as it may be deeper than Python's stack."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
    return depth
