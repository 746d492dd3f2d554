"""The parts of a page: sections of pictures, each with the table of what it shows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True)
class Table:
    """Rows of texts. ``numbers`` are the columns that are aligned as numbers, ``code`` those of others' bytes."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    code: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Picture:
    """A picture and its table.

    Attributes:
        words: what it shows, in a sentence.
        svg: None: the table alone.
        legend: the names of the colours, in order.
        is_open: whether the table is shown at once.
    """

    title: str
    words: str
    table: Table
    svg: Markup | None = None
    legend: tuple[str, ...] = ()
    is_open: bool = False


@dataclass(frozen=True)
class Section:
    """A section of a store; ``nothing`` says why it has no picture."""

    title: str
    pictures: Sequence[Picture] = ()
    nothing: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class StorePage:
    """All that a page says of one store."""

    name: str
    facts: dict[str, str]
    sections: list[Section] = field(default_factory=list)
