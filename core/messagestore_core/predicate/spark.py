"""A checked predicate as Spark columns, made part by part: Spark parses none of its text."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.expression import Call, Expression, Literal, Read
from messagestore_core.predicate.functions import CASTS
from messagestore_core.predicate.parser import Predicate

_INTERVAL_PARTS = ("DAY", "HOUR", "MINUTE", "SECOND")


def condition(predicate: Predicate) -> Column:
    """A column that is true for rows that the predicate selects."""
    return column_of(predicate.condition)


def failure(predicate: Predicate) -> Column:
    """A column that is true for rows on which the predicate could not be evaluated."""
    return column_of(predicate.failure)


def column_of(expression: Expression) -> Column:
    """A part of a predicate as a column."""
    return _column(expression, {})


def _column(expression: Expression, made: dict[int, Column]) -> Column:
    """The column of an expression; one that a predicate uses several times is made once."""
    if id(expression) not in made:
        made[id(expression)] = _new_column(expression, made)
    return made[id(expression)]


def _new_column(expression: Expression, made: dict[int, Column]) -> Column:
    match expression:
        case Literal():
            return _literal(expression)
        case Read(column, field):
            return F.col(f"`{column}`") if field is None else F.col(f"`{column}`").getField(field)
        case Call(name, parts):
            columns = [_column(part, made) for part in parts]
            if operator := _OPERATORS.get(name):
                return operator(*columns)
            return F.call_function(".".join(f"`{part}`" for part in name.split(".")), *columns)


def _literal(literal: Literal) -> Column:
    value = literal.value
    if not isinstance(value, str) or literal.kind is Kind.TEXT:
        return F.lit(value)
    if literal.kind is Kind.NUMBER:
        return F.lit(float(value) if "e" in value.lower() else Decimal(value) if "." in value else int(value))
    if literal.kind is Kind.INTERVAL:
        count, _, unit = value.partition(" ")
        return F.make_dt_interval(*(F.lit(int(count) if unit == part else 0) for part in _INTERVAL_PARTS))
    return F.lit(value).cast("timestamp")


def _joined(join: Callable[[Column, Column], Column]) -> Callable[..., Column]:
    """Join many columns as a balanced tree, as Spark walks it by recursion."""

    def balanced(*columns: Column) -> Column:
        if len(columns) == 1:
            return columns[0]
        half = len(columns) // 2
        return join(balanced(*columns[:half]), balanced(*columns[half:]))

    return balanced


def _to(type_: str) -> Callable[..., Column]:
    return lambda value: value.try_cast(type_)


_OPERATORS: Mapping[str, Callable[..., Column]] = MappingProxyType(
    {
        "=": lambda left, right: left == right,
        "<>": lambda left, right: left != right,
        "<": lambda left, right: left < right,
        "<=": lambda left, right: left <= right,
        ">": lambda left, right: left > right,
        ">=": lambda left, right: left >= right,
        "AND": _joined(lambda left, right: left & right),
        "OR": _joined(lambda left, right: left | right),
        "NOT": lambda value: ~value,
        "IS NULL": lambda value: value.isNull(),
        "IS NOT NULL": lambda value: value.isNotNull(),
        "IN": lambda value, *items: value.isin(*items),
        "[]": lambda values, key: values[key],
        **{name: _to(type_) for name, type_ in CASTS.items()},
    }
)
