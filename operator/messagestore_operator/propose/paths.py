"""Paths of the values in sampled records, and the records within records: strings that hold the JSON objects meant."""

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

_DEEPEST = 3
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MOST_STEPS = 3
_HOLDERS = ("message", "body", "payload", "data", "value", "content", "event", "detail", "record")
"""Names of members whose string is the message, and the rest what carried it."""

Values = list[Any]


def step(path: str, name: str) -> str:
    """The path of a member of what is at a path."""
    if _PLAIN.fullmatch(name):
        return f"{path}.{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{escaped}']"


def value_at(record: Any, path: str) -> Any:
    """The value at a path that this module has made; None where there is none."""
    for name, quoted in re.findall(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\['\\])*)'\]", path):
        record = record.get(name or re.sub(r"\\(.)", r"\1", quoted)) if isinstance(record, dict) else None
    return record


def columns_of(records: Sequence[Any]) -> dict[str, Values]:
    """The values of each path in the records, without nulls."""
    columns: dict[str, Values] = {}
    for record in records:
        for path, value in _leaves(record, "$", 1):
            columns.setdefault(path, []).append(value)
    return columns


def _leaves(document: Mapping[str, Any], below: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        path = step(below, name)
        if isinstance(value, dict):
            if depth < _DEEPEST:
                yield from _leaves(value, path, depth + 1)
        elif value is not None:
            yield path, value


def name_of(path: str) -> str:
    """The last name of a path, in small letters without what divides words."""
    return plain(re.split(r"\.|\['", path)[-1])


def plain(name: str) -> str:
    """A name in small letters without what divides words."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


class Step(NamedTuple):
    """From a record to the one within it."""

    path: str
    encoding: Literal["Text", "Base64"]


def find_steps(records: Sequence[Any]) -> tuple[Step, ...]:
    """The steps to the records within, outer to inner; none if most records hold none."""
    steps: list[Step] = []
    while len(steps) < _MOST_STEPS and (step := _step(records)) is not None:
        steps.append(step)
        records = [inner for one in records if (inner := _within(one, step)) is not None]
    return tuple(steps)


def unwrapped(record: Any, steps: Sequence[Step]) -> list[Any] | None:
    """A record and those within it, outer to inner; None if one of them is not there."""
    chain = [record]
    for step in steps:
        inner = _within(chain[-1], step)
        if inner is None:
            return None
        chain.append(inner)
    return chain


def _step(records: Sequence[Any]) -> Step | None:
    paths = [path for path in columns_of(records) if name_of(path) in _HOLDERS]
    for path in sorted(paths, key=lambda path: (path.count(".") + path.count("["), _HOLDERS.index(name_of(path)))):
        for encoding in ("Text", "Base64"):
            step = Step(path, encoding)
            if sum(_within(record, step) is not None for record in records) * 2 > len(records):
                return step
    return None


def _within(record: Any, step: Step) -> Mapping[str, Any] | None:
    """The object that a string in a record holds."""
    text = value_at(record, step.path)
    if not isinstance(text, str):
        return None
    try:
        inner = json.loads(b64decode(text, validate=True) if step.encoding == "Base64" else text)
    except (ValueError, RecursionError, binascii.Error):
        return None
    return inner if isinstance(inner, dict) else None
