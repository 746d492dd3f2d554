"""A checked predicate on rows in Arrow's memory: the same answers as Spark's, without Spark.

Types, conversions and rounding are those of Spark with ``spark.sql.ansi.enabled`` off and the session in UTC. A fuzz
test holds both against each other.
"""

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.json_values import is_json, json_text, steps
from messagestore_core.predicate.arrow import numbers, texts, times
from messagestore_core.predicate.arrow.times import microseconds_of
from messagestore_core.predicate.arrow.values import (
    BYTES,
    DOUBLE,
    INT,
    LENGTH,
    LONG,
    TEXT,
    TIME,
    TRUTH,
    NotExactError,
    Value,
    as_text,
    each,
)
from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.expression import Call, Expression, Literal, Read
from messagestore_core.predicate.parser import Predicate

__all__ = ["NotExactError", "chosen", "evaluate", "microseconds_of", "refusal_of"]

_SECONDS = {"DAY": 86_400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}


def chosen(predicate: Predicate, rows: pa.Table) -> pa.Array:
    """Which rows a predicate selects; false also where it can't be computed.

    Args:
        rows: with all columns that the predicate reads, in the types of the store's tables.

    Raises:
        NotExactError: Spark's answer is not known here.
    """
    return pc.fill_null(evaluate(predicate.condition, rows), False)


def evaluate(expression: Expression, rows: pa.Table) -> pa.Array:
    """The value of an expression on each row."""
    computed = _Rows(rows).value(expression)
    return pa.repeat(computed, rows.num_rows) if isinstance(computed, pa.Scalar) else computed


def refusal_of(predicate: Predicate, schema: pa.Schema) -> str | None:
    """Why a predicate is not computed here, whatever the rows are; None if it is."""
    try:
        chosen(predicate, schema.empty_table())
    except NotExactError as error:
        return str(error)
    return None


class _Rows:
    """The values of expressions on some rows; one that a predicate uses several times is computed once."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._known: dict[int, Value] = {}

    def value(self, expression: Expression) -> Value:
        """All values of an expression; only a literal is a constant."""
        if id(expression) not in self._known:
            computed = self._new(expression)
            if isinstance(computed, pa.Scalar) and not isinstance(expression, Literal):
                computed = pa.repeat(computed, self._rows.num_rows)
            self._known[id(expression)] = computed
        return self._known[id(expression)]

    def _new(self, expression: Expression) -> Value:
        match expression:
            case Literal():
                return _literal(expression)
            case Read(column, field):
                values = self._rows[column].combine_chunks()
                return values if field is None else pc.struct_field(values, field)
            case Call("messagestore.json_text", (document, Literal(path))):
                within = steps(str(path))
                return each(lambda content: json_text(content, within), TEXT, self.value(document))
            case Call("LIKE" | "messagestore.like", (text, Literal() as pattern)):
                return texts.like(self.value(text), _literal(pattern))
            case Call(name, parts):
                return _FUNCTIONS[name](*map(self.value, parts))


def _literal(literal: Literal) -> pa.Scalar:
    value = literal.value
    match literal.kind:
        case Kind.BOOLEAN:
            return pa.scalar(bool(value), TRUTH)
        case Kind.NUMBER:
            return _number(str(value))
        case Kind.TIMESTAMP:
            return pa.scalar(microseconds_of(str(value)), LONG).cast(TIME)
        case Kind.INTERVAL:
            count, _, unit = str(value).partition(" ")
            return pa.scalar(int(count) * _SECONDS[unit] * 1_000_000, LONG).cast(LENGTH)
    return pa.scalar(str(value), TEXT)


def _number(text: str) -> pa.Scalar:
    if "e" in text.lower():
        return pa.scalar(float(text), DOUBLE)
    if "." in text:
        number = Decimal(text)
        scale = -int(number.as_tuple().exponent)
        return pa.scalar(number, pa.decimal128(max(len(number.as_tuple().digits), scale), scale))
    whole = int(text)
    return pa.scalar(whole, INT if -(1 << 31) <= whole < 1 << 31 else LONG)


def _compare(test: Callable[[Any, Any], bool], compute: Callable[..., Value]) -> Callable[[Value, Value], Value]:
    def compared(left: Value, right: Value) -> Value:
        left, right = numbers.alike(left, right, literals=True)
        if left.type == DOUBLE:
            return numbers.compared(test, left, right)
        if left.type == TRUTH:
            left, right = left.cast(INT), right.cast(INT)
        return compute(left, right)

    return compared


_COMPARISONS = {
    "=": _compare(operator.eq, pc.equal),
    "<>": _compare(operator.ne, pc.not_equal),
    "<": _compare(operator.lt, pc.less),
    "<=": _compare(operator.le, pc.less_equal),
    ">": _compare(operator.gt, pc.greater),
    ">=": _compare(operator.ge, pc.greater_equal),
}


def _between(value: Value, low: Value, high: Value) -> Value:
    return pc.and_kleene(_COMPARISONS[">="](value, low), _COMPARISONS["<="](value, high))


def _among(value: Value, *items: Value) -> Value:
    compared, *listed = numbers.alike(value, *items)
    return reduce(pc.or_kleene, (_COMPARISONS["="](compared, item) for item in listed))


def _sum(sign: int) -> Callable[[Value, Value], Value]:
    def calculated(left: Value, right: Value) -> Value:
        of_kind = numbers.summed if numbers.is_number(left) else times.moved
        return of_kind(left, right, sign)

    return calculated


def _text_of(value: Value) -> Value:
    if value.type == DOUBLE:
        raise NotExactError("string() takes no number here that is rounded, as / and 1e3 give it; compare the number")
    if value.type == TIME:
        return each(times.write_time, TEXT, value)
    if pa.types.is_decimal(value.type):
        return each(lambda number: f"{number:f}".encode(), TEXT, value)
    return as_text(value) if value.type == BYTES else value.cast(TEXT)


def _joined(join: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    return lambda *values: reduce(join, values)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **_COMPARISONS,
        "AND": _joined(pc.and_kleene),
        "OR": _joined(pc.or_kleene),
        "NOT": pc.invert,
        "IS NULL": pc.is_null,
        "IS NOT NULL": pc.is_valid,
        "IN": _among,
        "BETWEEN": _between,
        "[]": lambda values, key: pc.map_lookup(values, key, "first"),
        "messagestore.is_json": lambda value: pc.fill_null(each(is_json, TRUTH, value), False),
        "try_add": _sum(1),
        "try_subtract": _sum(-1),
        **numbers.FUNCTIONS,
        **texts.FUNCTIONS,
        "coalesce": lambda *values: pc.coalesce(*numbers.alike(*values)),
        "int": lambda value: texts.as_whole(value) if value.type == TEXT else numbers.whole(value),
        "bool": lambda value: texts.as_truth(value) if value.type == TEXT else each(bool, TRUTH, value),
        "string": _text_of,
        "timestamp": lambda value: each(times.read_time, TIME, value),
    }
)
