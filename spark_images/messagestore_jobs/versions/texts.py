"""What lies at a path of a JSON document, as text: what ``messagestore.json_text`` does in Spark."""

import json
from collections.abc import Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

_WHITE_SPACE = " \t\r\n"
_decoder = json.JSONDecoder()


def json_text(document: bytes | None, steps: Sequence[str | int]) -> str | None:
    """A string unescaped, anything else as its exact JSON text; None where nothing lies there.

    Also where the document is not JSON by RFC 8259, has a key twice or is nested too deeply; and null is nothing.
    """
    if document is None:
        return None
    try:
        text = document.decode()
        _check(text)
        found = _find(text, _start(text, 0), steps)
        if found is None or text.startswith("null", found):
            return None
        told = scanstring(text, found + 1, True)[0] if text[found] == '"' else text[found : _end(text, found)]
        told.encode()  # Half a surrogate pair is no text.
        return str(told)
    except (ValueError, RecursionError):
        return None


def _check(text: str) -> None:
    json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    if "\0" in text:
        raise ValueError("a NUL byte")


def _object(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _find(text: str, at: int, steps: Sequence[str | int]) -> int | None:
    """Where the value at the path starts."""
    for step in steps:
        found = _member(text, at, step) if isinstance(step, str) else _element(text, at, step)
        if found is None:
            return None
        at = found
    return at


def _member(text: str, at: int, name: str) -> int | None:
    if text[at] != "{":
        return None
    at = _start(text, at + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1, True)
        at = _start(text, _start(text, at) + 1)
        if key == name:
            return at
        at = _next(text, at)
    return None


def _element(text: str, at: int, place: int) -> int | None:
    if text[at] != "[":
        return None
    at = _start(text, at + 1)
    while text[at] != "]":
        if place == 0:
            return at
        at, place = _next(text, at), place - 1
    return None


def _next(text: str, at: int) -> int:
    """Where the next key or element starts, or its container ends."""
    at = _start(text, _end(text, at))
    return _start(text, at + 1) if text[at] == "," else at


def _end(text: str, at: int) -> int:
    return _decoder.raw_decode(text, at)[1]


def _start(text: str, at: int) -> int:
    while text[at] in _WHITE_SPACE:
        at += 1
    return at
