"""Paths of the values in sampled records."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DEEPEST = 3
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

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
