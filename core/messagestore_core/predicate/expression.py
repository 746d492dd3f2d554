"""What a checked predicate is made of: values, columns, and calls of them."""

from dataclasses import dataclass
from typing import TypeAlias

from messagestore_core.predicate.columns import Kind


@dataclass(frozen=True)
class Literal:
    """A value of `kind`, as text in the form that literals.py gives it; true, false or null as they are."""

    value: str | bool | None
    kind: Kind


@dataclass(frozen=True)
class Read:
    """A column, or a field of one."""

    column: str
    field: str | None = None


@dataclass(frozen=True)
class Cast:
    """A value as another type; null where it can't be."""

    value: "Expression"
    type: str


@dataclass(frozen=True)
class Call:
    """A function or an operator, and what it is given."""

    name: str
    parts: tuple["Expression", ...]


Expression: TypeAlias = Literal | Read | Cast | Call

FALSE = Literal(False, Kind.BOOLEAN)
NULL = Literal(None, Kind.NULL)


def call(name: str, *parts: Expression) -> Call:
    """Make a call."""
    return Call(name, parts)


def size(expression: Expression) -> int:
    """Count the parts, as many times as Spark will hold each: some functions ask their first argument again."""
    match expression:
        case Cast(value, _):
            return 1 + size(value)
        case Call(name, parts):
            sizes = [size(part) for part in parts]
            again = len(parts) // 2 if name == "CASE OF" else int(name in ("BETWEEN", "nullif"))
            return 1 + sum(sizes) + again * sizes[0]
        case _:
            return 1
