"""A checked predicate as Spark columns, made part by part: Spark parses none of its text."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.compiler import Predicate
from messagestore_core.predicate.expression import Call, Cast, Expression, Literal, Read

_INTERVAL_PARTS = ("DAY", "HOUR", "MINUTE", "SECOND")


def condition(predicate: Predicate) -> Column:
    """A column that is true for rows that the predicate selects."""
    return _Columns().of(predicate.condition)


def failure(predicate: Predicate) -> Column:
    """A column that is true for rows on which the predicate could not be evaluated."""
    return _Columns().of(predicate.failure)


class _Columns:
    """Makes columns; an expression that a predicate uses several times is made once."""

    def __init__(self) -> None:
        self._made: dict[int, Column] = {}

    def of(self, expression: Expression) -> Column:
        key = id(expression)
        if key not in self._made:
            self._made[key] = self._make(expression)
        return self._made[key]

    def _make(self, expression: Expression) -> Column:
        match expression:
            case Literal():
                return _literal(expression)
            case Read(column, None):
                return F.col(f"`{column}`")
            case Read(column, field):
                return F.col(f"`{column}`").getField(field)
            case Cast(value, type_):
                return self.of(value).try_cast(type_)
            case Call(name, parts):
                columns = [self.of(part) for part in parts]
                operator = _OPERATORS.get(name)
                return operator(*columns) if operator else F.call_function(_quoted(name), *columns)


def _literal(literal: Literal) -> Column:
    value = literal.value
    if not isinstance(value, str) or literal.kind is Kind.TEXT:
        return F.lit(value)
    match literal.kind:
        case Kind.NUMBER:
            return F.lit(float(value) if "e" in value.lower() else Decimal(value) if "." in value else int(value))
        case Kind.BINARY:
            return F.lit(bytes.fromhex(value))
        case Kind.INTERVAL:
            count, _, unit = value.partition(" ")
            parts = [int(count) if unit == part else 0 for part in _INTERVAL_PARTS]
            return F.make_dt_interval(*map(F.lit, parts))
        case kind:
            return F.lit(value).cast(kind.name.lower())


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def _joined(join: Callable[[Column, Column], Column]) -> Callable[..., Column]:
    """Join many columns as a balanced tree, as Spark walks it by recursion."""

    def balanced(*columns: Column) -> Column:
        if len(columns) == 1:
            return columns[0]
        half = len(columns) // 2
        return join(balanced(*columns[:half]), balanced(*columns[half:]))

    return balanced


def _case(*columns: Column) -> Column:
    *branches, default = columns
    case = F.when(branches[0], branches[1])
    for test, value in zip(branches[2::2], branches[3::2], strict=True):
        case = case.when(test, value)
    return case.otherwise(default)


def _case_of(subject: Column, *columns: Column) -> Column:
    *branches, default = columns
    tests = [subject == value for value in branches[::2]]
    return _case(*(part for branch in zip(tests, branches[1::2], strict=True) for part in branch), default)


_OPERATORS: Mapping[str, Callable[..., Column]] = MappingProxyType(
    {
        "=": lambda left, right: left == right,
        "<>": lambda left, right: left != right,
        "<=>": lambda left, right: left.eqNullSafe(right),
        "<": lambda left, right: left < right,
        "<=": lambda left, right: left <= right,
        ">": lambda left, right: left > right,
        ">=": lambda left, right: left >= right,
        "AND": _joined(lambda left, right: left & right),
        "OR": _joined(lambda left, right: left | right),
        "NOT": lambda value: ~value,
        "IS NULL": lambda value: value.isNull(),
        "IS NOT NULL": lambda value: value.isNotNull(),
        "IS TRUE": lambda value: value.eqNullSafe(F.lit(True)),
        "IS FALSE": lambda value: value.eqNullSafe(F.lit(False)),
        "IN": lambda value, *items: value.isin(*items),
        "[]": lambda values, key: values[key],
        "CASE": _case,
        "CASE OF": _case_of,
    }
)
