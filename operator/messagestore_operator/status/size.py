"""Keeps a status small enough for the API server, which would refuse each write of a larger one."""

import json
from collections.abc import Iterator
from typing import Any

from messagestore_operator.status.conditions import AnyStatus

MOST_BYTES = 512 * 1024
"""Etcd takes 1.5 MiB, for the resource with its spec, annotations and managed fields."""
SHORT = 200
"""Characters that stay of a message that is shortened."""
_LEFT_OUT = "… (shortened: the status would be too large)"
_ESCAPED = "<>&"
"""The API server stores each of these as six characters."""


def fitted(status: AnyStatus) -> AnyStatus:
    """The status with so many messages shortened that it fits: those of the oldest runs first, the conditions' last."""
    document = status.to_dict()
    excess = size(document) - MOST_BYTES
    if excess <= 0:
        return status
    for part in _with_messages(document):
        if excess > 0 and len(part["message"]) > SHORT:
            excess -= size(part)
            part["message"] = part["message"][: SHORT - len(_LEFT_OUT)] + _LEFT_OUT
            excess += size(part)
    return type(status).model_validate(document)


def size(part: Any) -> int:
    """The bytes that a part of a status takes in etcd."""
    text = json.dumps(part, ensure_ascii=False)
    return len(text.encode()) + 5 * sum(map(text.count, _ESCAPED))


def _with_messages(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All parts of a status that have a message, the least useful first."""
    for name in sorted(document, key=lambda name: (name == "conditions", name != "recentRuns")):
        yield from _messages_in(document[name])


def _messages_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, list):
        for one in reversed(part):
            yield from _messages_in(one)
    if isinstance(part, dict):
        if isinstance(part.get("message"), str):
            yield part
        for value in part.values():
            yield from _messages_in(value)
