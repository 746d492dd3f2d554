"""A user's condition: checked, computed on rows, and as far as it is safe, told to the query engine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore import sql
from messagestore.errors import ArgumentError
from messagestore_core.predicate import Kind, Predicate, PredicateError, compile_predicate
from messagestore_core.predicate.arrow import NotExactError, chosen, microseconds_of, refusal_of
from messagestore_core.predicate.expression import Call, Expression, Literal, Read
from messagestore_core.store.schemas import MESSAGES

_LARGE = frozenset({"payload", "result", "metadata", "headers"})
_NAMED = frozenset({"stream_name", "category", "message_id", "correlation_id", "status", "sequence_id"})
"""Columns whose statistics tell which files can have a text."""
_SURE = (1 << 53) - 1
"""The query engine reads whole numbers up to this one exactly, whatever it takes them for."""
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Condition:
    """A condition that may run.

    Attributes:
        predicates: its parts, which are all true where it is.
        columns: what it reads.
        pushed: columns, each with a condition in SQL that all chosen rows meet.
        equal: columns with texts that all chosen rows have there.
    """

    predicates: tuple[Predicate, ...]
    columns: tuple[str, ...]
    pushed: tuple[tuple[str, str], ...]
    equal: dict[str, str]

    @property
    def is_large(self) -> bool:
        """Whether it reads columns that may be large."""
        return not _LARGE.isdisjoint(self.columns)

    def keeps(self, rows: pa.Table) -> pa.Array:
        """Which rows it chooses; one on which it can't be computed isn't.

        Raises:
            ArgumentError: the answer depends on something that is not known here.
        """
        try:
            return reduce(pc.and_, (chosen(one, rows) for one in self.predicates))
        except NotExactError as error:
            raise ArgumentError(f"where: {error}") from error


def checked(where: str | tuple[str, ...] | None) -> Condition | None:
    """A condition, or several of which all must be true; None without one.

    Raises:
        ArgumentError: it is refused; the message says which part, and what to write.
    """
    texts = (where,) if isinstance(where, str) else where
    if not texts:
        return None
    predicates = tuple(map(_compiled, texts))
    parts = [part for one in predicates for part in _all_of(one.condition)]
    columns = sorted(frozenset[str]().union(*(one.columns for one in predicates)))
    pushed = tuple(one for part in parts for one in _pushed(part))
    equal = {column: text for part in parts for column, text in _equal(part)}
    return Condition(predicates, tuple(columns), pushed, equal)


def _compiled(where: str) -> Predicate:
    try:
        predicate = compile_predicate(where)
    except PredicateError as error:
        raise ArgumentError(f"where: {error}") from error
    if why := refusal_of(predicate, MESSAGES):
        raise ArgumentError(f"where: {why}")
    return predicate


def narrowed(where: str | None, *more: str) -> tuple[str, ...]:
    """A user's condition and others. Each may be as long as any, so they are not joined."""
    return (*([where] if where is not None else []), *more)


def quoted(text: str) -> str:
    """A text as a condition has it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _all_of(expression: Expression) -> Iterator[Expression]:
    """The parts that are all true where the expression is."""
    match expression:
        case Call("AND", parts):
            for part in parts:
                yield from _all_of(part)
        case _:
            yield expression


def _equal(part: Expression) -> Iterator[tuple[str, str]]:
    match part:
        case Call("=", (Read(column, None), Literal(str(text), Kind.TEXT))) if column in _NAMED:
            yield column, text


def _pushed(part: Expression) -> Iterator[tuple[str, str]]:
    match part:
        case Call("IS NULL", (Read(column, None),)):
            yield column, f'"{column}" is null'
        case Call("NOT", (Call("IS NULL", (Read(column, None),)),)):
            yield column, f'"{column}" is not null'
        case Call(sign, (Read(column, None), Literal() as literal)) if sign in _COMPARISONS:
            yield from _with_values(column, [literal], lambda values: f'"{column}" {sign} {values[0]}')
        case Call("BETWEEN", (Read(column, None), Literal() as low, Literal() as high)):
            yield from _with_values(
                column, [low, high], lambda values: f'"{column}" between {values[0]} and {values[1]}'
            )
        case Call("IN", (Read(column, None), *items)):
            literals = [item for item in items if isinstance(item, Literal)]
            yield from _with_values(column, literals, lambda values: f'"{column}" in ({", ".join(values)})')


def _with_values(column: str, literals: list[Literal], write: Callable[[list[str]], str]) -> Iterator[tuple[str, str]]:
    values = [_value(literal) for literal in literals]
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        yield column, write(known)


def _value(literal: Literal) -> str | None:
    """A literal in SQL; None if the query engine may read it differently."""
    value: Any = literal.value
    match literal.kind:
        case Kind.TEXT:
            return sql.literal(value)
        case Kind.TIMESTAMP:
            return sql.time(microseconds_of(value))
        case Kind.NUMBER if value.lstrip("-").isdigit() and abs(int(value)) <= _SURE:
            return str(int(value))
    return None
