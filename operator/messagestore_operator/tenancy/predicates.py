"""Checks the ``where`` of resources against the language of the jobs, in limited time, so that no tenant blocks others.

The limit is of CPU time, so that a busy machine refuses nothing that an idle one accepts. The process that checks them
in a cluster (``predicate_worker``) loads this module, so it imports the parser and little else.
"""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from messagestore_core import predicate as language
from messagestore_operator.kube.objects import at

Predicate = tuple[str, str]
"""The name of its set of columns in messagestore_core.predicate, and its text."""
Refused = tuple[int, str]
"""The index of the refused predicate, and why."""

SECONDS = 2.0
"""Limit for all predicates of a resource; one takes some milliseconds."""
_REPEAT_SECONDS = 0.1
"""An exception raised in a callback of the interpreter may be lost, so it is raised again after this time."""
TOO_LONG = f"takes more than {SECONDS:g} s to read: write it shorter, or with less nesting"
TOO_LARGE = "takes too much memory to read: write it shorter, or with less nesting"


class _OutOfTimeError(BaseException):
    """Not a subclass of Exception, which the parser would catch."""


def refused(predicates: Sequence[Predicate]) -> list[Refused]:
    """The refused predicates, up to the first that exceeds time or memory. Only for the main thread."""
    problems: list[Refused] = []
    number = 0
    try:
        with _time_limit():
            for number, (columns, text) in enumerate(predicates):
                try:
                    language.compile_predicate(text, getattr(language, columns))
                except language.PredicateError as error:
                    problems.append((number, str(error)))
    except _OutOfTimeError:
        problems.append((number, TOO_LONG))
    except MemoryError:
        problems.append((number, TOO_LARGE))
    return problems


@contextmanager
def _time_limit() -> Iterator[None]:
    def end(*_: Any) -> None:
        raise _OutOfTimeError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, _REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


Path = tuple[str | int, ...]
"""A field's path."""


def predicate_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The path of each refused predicate, and why. The document may be invalid otherwise."""
    predicates = list(predicates_of(document))
    if predicates:
        for index, words in refused([predicate for _, predicate in predicates]):
            yield predicates[index][0], words


def predicates_of(document: Mapping[str, Any]) -> Iterator[tuple[Path, Predicate]]:
    """The predicates of a document with their paths."""
    replayed = "DEAD_LETTER_COLUMNS" if at(document, "spec", "origin") == "DeadLetters" else "MESSAGE_COLUMNS"
    if at(document, "spec", "start") is not None:
        replayed = "SUBSCRIPTION_COLUMNS"
    fields: dict[str, list[tuple[Path, str]]] = {
        "MessageStream": [
            (("spec", "filter"), "FILTER_COLUMNS"),
            *((path, "MESSAGE_COLUMNS") for path in _matches(document, "holds")),
        ],
        "RetentionPolicy": [(path, "MESSAGE_COLUMNS") for path in _matches(document, "rules")],
        "ReplayJob": [
            (("spec", "select"), replayed),
            *((path, "SUBSCRIPTION_COLUMNS") for path in _items(document, "destinations")),
        ],
    }
    for path, columns in fields.get(str(document.get("kind")), []):
        text = at(document, *path, "where")
        if isinstance(text, str) and text:
            yield (*path, "where"), (columns, text)


def _matches(document: Mapping[str, Any], field: str) -> list[Path]:
    return [(*path, "match") for path in _items(document, field)]


def _items(document: Mapping[str, Any], field: str) -> list[Path]:
    items = at(document, "spec", field)
    return [("spec", field, index) for index in range(len(items))] if isinstance(items, list) else []
