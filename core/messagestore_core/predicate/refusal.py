"""The error for the author of a predicate."""

from collections.abc import Iterable
from dataclasses import dataclass

from messagestore_core.text import one_line

ALLOWED = (
    "allowed are texts, numbers, times, intervals, the table's columns, headers['name'], json(payload, '$.path'), "
    "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, + - * / % and some functions: docs/filters.md"
)
_SHOWN = 80


@dataclass(frozen=True)
class Refusal:
    """A part of a predicate that is not allowed: its text, its first character (counted from 1), and why."""

    part: str
    position: int
    why: str

    def __str__(self) -> str:
        return f"`{self.part}` at character {self.position}: {self.why}"


class PredicateError(ValueError):
    """A predicate is refused; ``refusals`` has every part that is not allowed."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{'; '.join(map(str, self.refusals))} ({ALLOWED})")


def refusal(text: str, at: slice, why: str) -> Refusal:
    """The refusal of a part of ``text``."""
    return Refusal(one_line(text[at], _SHOWN), (at.start or 0) + 1, why)
