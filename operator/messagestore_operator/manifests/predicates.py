"""The predicates in a manifest, held to the language that the jobs understand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from messagestore_operator.manifests.problem import Path


def predicate_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The path of each predicate that is refused, and why. The document may be wrong in any other way."""
    # Late: the parser takes longer to import than most manifests take to check, and most have no predicate.
    from messagestore_jobs.predicate import PredicateError, compile_predicate

    for path, text, columns in _predicates(document):
        try:
            compile_predicate(text, columns)
        except PredicateError as error:
            yield path, str(error)


def _predicates(document: Mapping[str, Any]) -> Iterator[tuple[Path, str, Any]]:
    from messagestore_jobs.predicate import DEAD_LETTER_COLUMNS, FILTER_COLUMNS, MESSAGE_COLUMNS

    redrive = _at(document, ("spec", "origin")) == "DeadLetters"
    places: dict[str, list[tuple[Path, Any]]] = {
        "MessageStream": [
            (("spec", "filter"), FILTER_COLUMNS),
            *((path, MESSAGE_COLUMNS) for path in _matches(document, "holds")),
        ],
        "RetentionPolicy": [(path, MESSAGE_COLUMNS) for path in _matches(document, "rules")],
        "ReplayJob": [(("spec", "select"), DEAD_LETTER_COLUMNS if redrive else MESSAGE_COLUMNS)],
    }
    for path, columns in places.get(str(document.get("kind")), []):
        text = _at(document, (*path, "where"))
        if isinstance(text, str) and text:
            yield (*path, "where"), text, columns


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
