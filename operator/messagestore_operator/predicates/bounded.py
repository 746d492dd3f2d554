"""Checks predicates against the language of the jobs, in limited time.

The limit is of CPU time, so that a busy machine refuses nothing that an idle one accepts.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from messagestore_core import predicate as language

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
    at = 0
    try:
        with _time_limit():
            for at, (columns, text) in enumerate(predicates):
                try:
                    language.compile_predicate(text, getattr(language, columns))
                except language.PredicateError as error:
                    problems.append((at, str(error)))
    except _OutOfTimeError:
        problems.append((at, TOO_LONG))
    except MemoryError:
        problems.append((at, TOO_LARGE))
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
