"""What is said to the author of a predicate that is not taken."""

from collections.abc import Iterable
from dataclasses import dataclass

from messagestore_jobs.text import one_line

ALLOWED = (
    "allowed are literals, the table's columns, json(payload, '$.path'), comparisons, AND, OR, NOT, "
    "arithmetic, IN with literals, BETWEEN, LIKE, RLIKE, IS NULL, CASE, CAST and a list of pure functions"
)

_SHOWN = 80


def shorten(text: str) -> str:
    """Give `text` on one line, short enough for a message."""
    return one_line(text, _SHOWN)


@dataclass(frozen=True)
class Refusal:
    """One part of a predicate that is not allowed: its text, where it begins (counted from 1), and why."""

    part: str
    position: int | None
    why: str

    def __str__(self) -> str:
        place = "" if self.position is None else f" at character {self.position}"
        return f"`{self.part}`{place}: {self.why}"


class PredicateError(ValueError):
    """A predicate is refused; `refusals` names every part that is at fault."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{'; '.join(map(str, self.refusals))} ({ALLOWED})")

    @classmethod
    def of(cls, part: str, why: str, position: int | None = None) -> "PredicateError":
        """Make the error for a single refusal."""
        return cls([Refusal(shorten(part), position, why)])
