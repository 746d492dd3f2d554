"""JSON documents: whether bytes are one, and the exact text at a path as manifests write it.

Both are as the Spark extension's ``is_json`` and ``json_text`` say.
"""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from messagestore_core.bounds import DEEPEST, MOST_KEYS

_FEW_LEVELS = 400
"""Of fewer brackets no document is too deep for Python's own reader."""
_TOKEN = re.compile(
    r'[ \t\n\r]*+([{}\[\],:]|"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+"'
    r"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)"
)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]|\[([0-9]{1,9})\]")
_BLANK = " \t\n\r"
_NUMERIC = "-0123456789"

Path = Sequence[str | int]
"""Names and indexes, as ``steps`` gives them."""


class _Lexeme(str):
    """A number as it is written."""


def steps(path: str) -> list[str | int]:
    """The steps of a path of ``$``, ``.name``, ``['name']``, ``[n]``, and nothing else: names, and indexes of arrays.

    Raises:
        ValueError: the text is no such path.
    """
    if not path.startswith("$"):
        raise ValueError(f"{path!r} is no path: it starts with $")
    parts: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is no path from {path[at:]!r} on: steps are .name, ['name'] and [n]")
        name, quoted, index = step.groups()
        parts.append(int(index) if index is not None else name or re.sub(r"\\(.)", r"\1", quoted))
        at = step.end()
    return parts


def is_json(content: bytes) -> bool:
    """Whether bytes are one JSON value (RFC 8259), not too deep, and with no key twice in an object."""
    return _read(content, ())[0]


def json_text(content: bytes, path: Path) -> bytes | None:
    """The value at a path: a string's characters, the exact text of another; None if there is none, or it is null."""
    return _read(content, path)[1]


def read_record(content: bytes | str) -> Any:
    """A record that a run has written, with any payload that a store takes in it.

    An integer of more than 19 digits is its text: Python refuses very long ones.

    Raises:
        ValueError: it is no JSON.
    """
    # The reader recurses.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * DEEPEST))
    return json.loads(content, parse_int=lambda digits: int(digits) if len(digits) < 20 else digits)


def _read(content: bytes, path: Path) -> tuple[bool, bytes | None]:
    """Whether bytes are JSON, and the text at a path."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False, None
    brackets = content.count(b"[") + content.count(b"{")
    # Names with escapes may have half of a surrogate pair, which the quick way doesn't see.
    few = brackets <= _FEW_LEVELS and content.count(b":") <= MOST_KEYS and b"\\u" not in content
    try:
        if few:
            value = _at(json.loads(text, **_EXACT), path)
            if path and not isinstance(value, dict | list):
                return True, _written(value)
        span = _Scan(text, path).span()
        return True, None if span is None else _written_at(text[slice(*span)])
    except ValueError:
        return False, None


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def _written(value: Any) -> bytes | None:
    if value is None or isinstance(value, bool):
        return None if value is None else b"true" if value else b"false"
    try:
        return str(value).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair is no text.
        return None


def _written_at(text: str) -> bytes | None:
    if text.startswith('"'):
        return _written(json.loads(text))
    return None if text == "null" else text.encode()


def refuse_constant(constant: str) -> None:
    """Raise ValueError for what only Python reads as a number: ``parse_constant`` of ``json.loads``."""
    raise ValueError(f"{constant} is no JSON")


def members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, or ValueError for a key twice: ``object_pairs_hook`` of ``json.loads``."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key twice")
    return members


_EXACT: dict[str, Any] = {
    "parse_int": _Lexeme,
    "parse_float": _Lexeme,
    "parse_constant": refuse_constant,
    "object_pairs_hook": members_once,
}


class _Open:
    """An object or array that the scan is inside of, and the step to its current value."""

    def __init__(self, bracket: str, begin: int) -> None:
        self.begin, self.closes = begin, "}" if bracket == "{" else "]"
        self.names: set[str] = set()
        self.step: str | int = 0

    def name(self, name: str) -> None:
        """Begin a member; half of a surrogate pair is no name."""
        name.encode()
        if name in self.names:
            raise ValueError("a key twice")
        self.names.add(name)
        self.step = name

    def go_on(self) -> str:
        """What follows a comma."""
        if isinstance(self.step, str):
            return "name"
        self.step += 1
        return "value"


class _Scan:
    """Finds where the value at a path begins and ends. It doesn't recurse, as documents may be deep."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path
        self._opened = list[_Open]()
        self._held, self._expected = 0, "value"
        self._span: tuple[int, int] | None = None

    def span(self) -> tuple[int, int] | None:
        """Where the value is; None without one.

        Raises:
            ValueError: it is no JSON.
        """
        begin, at = _token(self._text, 0)
        while self._take(begin, at):
            begin, at = _token(self._text, at)
        if self._text[at:].strip(_BLANK):
            raise ValueError("more follows")
        # As in Spark, a blank right behind a number that is all of the document counts as a part of it.
        is_number = self._span and self._text[begin] in _NUMERIC
        return (begin, at + 1) if is_number and self._text[at : at + 1] in (" ", "\t", "\n") else self._span

    def _take(self, begin: int, end: int) -> bool:
        """Take a token; False if it is the last one."""
        sign, expected = self._text[begin], self._expected
        if sign in "{[" and expected.startswith("value"):
            self._opened.append(_Open(sign, begin))
            self._expected = "name or }" if sign == "{" else "value or ]"
        elif sign == '"' and expected.startswith("name"):
            self._opened[-1].name(json.loads(self._text[begin:end]))
            self._held, self._expected = self._held + 1, ":"
        elif sign == ":" == expected:
            self._expected = "value"
        elif sign == "," and expected == "more":
            self._expected = self._opened[-1].go_on()
        else:
            self._end(self._begin_of_closed(sign, begin), end)
        if len(self._opened) > DEEPEST or self._held > MOST_KEYS:
            raise ValueError("too deep, or too many keys")
        return bool(self._opened)

    def _begin_of_closed(self, sign: str, begin: int) -> int:
        """Where the value began that ends with a token."""
        if self._opened and sign == self._opened[-1].closes and self._expected.endswith(("more", sign)):
            closed = self._opened.pop()
            self._held -= len(closed.names)
            return closed.begin
        if sign in "{}[],:" or not self._expected.startswith("value"):
            raise ValueError("unexpected")
        return begin

    def _end(self, begin: int, end: int) -> None:
        steps = [one.step for one in self._opened] if len(self._opened) == len(self._path) else None
        if steps == list(self._path):
            self._span = begin, end
        self._expected = "more"


def _token(text: str, at: int) -> tuple[int, int]:
    token = _TOKEN.match(text, at)
    if token is None:
        raise ValueError("no JSON")
    return token.start(1), token.end()
