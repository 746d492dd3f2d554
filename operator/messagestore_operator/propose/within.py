"""Records within records: in sampled records, the strings that hold the JSON objects that are meant."""

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from messagestore_operator.propose.paths import columns_of, name_of, value_at

_MOST_STEPS = 3
_HOLDERS = ("message", "body", "payload", "data", "value", "content", "event", "detail", "record")
"""Names of members whose string is the message, and the rest what carried it."""


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
