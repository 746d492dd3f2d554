"""The parts of a checked predicate: values, columns and calls."""

from dataclasses import dataclass
from typing import TypeAlias

from messagestore_core.predicate.columns import Kind


@dataclass(frozen=True)
class Literal:
    """A value of ``kind``, as text in the form of literals.py; true and false as they are."""

    value: str | bool
    kind: Kind


@dataclass(frozen=True)
class Read:
    """A column, or a field of one."""

    column: str
    field: str | None = None


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments."""

    name: str
    parts: tuple["Expression", ...]


Expression: TypeAlias = Literal | Read | Call

FALSE = Literal(False, Kind.BOOLEAN)


def call(name: str, *parts: Expression) -> Call:
    """Make a call."""
    return Call(name, parts)


def reads(expression: Expression) -> bool:
    """Whether an expression depends on a column."""
    return any(map(reads, expression.parts)) if isinstance(expression, Call) else isinstance(expression, Read)


def size(expression: Expression) -> int:
    """Count the parts. BETWEEN compares its first one twice, but no value has another BETWEEN in it."""
    return 1 + sum(map(size, expression.parts)) if isinstance(expression, Call) else 1
