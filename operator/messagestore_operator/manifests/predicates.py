"""Checks the predicates of a manifest against the language of the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from messagestore_operator.manifests.problem import Path
from messagestore_operator.predicates.bounded import Predicate, refused


def predicate_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The path of each refused predicate, and why. The document may be invalid otherwise."""
    predicates = list(predicates_of(document))
    if predicates:
        for index, words in refused([predicate for _, predicate in predicates]):
            yield predicates[index][0], words


def predicates_of(document: Mapping[str, Any]) -> Iterator[tuple[Path, Predicate]]:
    """The predicates of a document with their paths."""
    redrive = _at(document, ("spec", "origin")) == "DeadLetters"
    fields: dict[str, list[tuple[Path, str]]] = {
        "MessageStream": [
            (("spec", "filter"), "FILTER_COLUMNS"),
            *((path, "MESSAGE_COLUMNS") for path in _matches(document, "holds")),
        ],
        "RetentionPolicy": [(path, "MESSAGE_COLUMNS") for path in _matches(document, "rules")],
        "ReplayJob": [(("spec", "select"), "DEAD_LETTER_COLUMNS" if redrive else "MESSAGE_COLUMNS")],
    }
    for path, columns in fields.get(str(document.get("kind")), []):
        text = _at(document, (*path, "where"))
        if isinstance(text, str) and text:
            yield (*path, "where"), (columns, text)


def _matches(document: Mapping[str, Any], field: str) -> list[Path]:
    items = _at(document, ("spec", field))
    return [("spec", field, index, "match") for index in range(len(items))] if isinstance(items, list) else []


def _at(value: Any, path: Path) -> Any:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value
