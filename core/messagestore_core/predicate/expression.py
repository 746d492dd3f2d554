"""The parts of a checked predicate: values, columns, casts and calls."""

from dataclasses import dataclass
from typing import TypeAlias

from messagestore_core.predicate.columns import Kind


@dataclass(frozen=True)
class Literal:
    """A value of `kind`, as text in the form of literals.py; true, false and null as they are."""

    value: str | bool | None
    kind: Kind


@dataclass(frozen=True)
class Read:
    """A column, or a field of one."""

    column: str
    field: str | None = None


@dataclass(frozen=True)
class Cast:
    """A value cast to another type; null where it can't be cast."""

    value: "Expression"
    type: str


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments."""

    name: str
    parts: tuple["Expression", ...]


Expression: TypeAlias = Literal | Read | Cast | Call

FALSE = Literal(False, Kind.BOOLEAN)
NULL = Literal(None, Kind.NULL)


def call(name: str, *parts: Expression) -> Call:
    """Make a call."""
    return Call(name, parts)


def size(expression: Expression) -> int:
    """Count the parts as often as Spark's plan has each: some functions repeat their first argument."""
    match expression:
        case Cast(value, _):
            return 1 + size(value)
        case Call(name, parts):
            sizes = [size(part) for part in parts]
            again = len(parts) // 2 if name == "CASE OF" else int(name in ("BETWEEN", "nullif"))
            return 1 + sum(sizes) + again * sizes[0]
        case _:
            return 1
