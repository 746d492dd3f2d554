"""Numbers: Spark's types of results, conversions, and arithmetic that gives null where it overflows."""

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from messagestore_core.predicate.arrow.values import DOUBLE, INT, LONG, TRUTH, Value, each

_MOST = 38
"""Digits of a decimal number."""
_DIVISION_SCALE = _MOST + 1
_LEAST_SCALE = 6
_EXACT = Context(prec=400)
_DIGITS = {INT: 10, LONG: 20}
_RANGES = {INT: 1 << 31, LONG: 1 << 63}


def alike(*values: Value, literals: bool = False) -> list[Value]:
    """Numbers as the common type of all; values of other kinds are given back.

    Args:
        literals: a whole literal beside a decimal number has only as many digits as it is written with.
    """
    if len({value.type for value in values}) == 1 or not all(map(is_number, values)):
        return list(values)
    types = [_own_decimal(value) if literals and _has_decimal(values) else value.type for value in values]
    common = types[0]
    for other in types[1:]:
        common = _wider(common, other)
    return [to(value, common) for value in values]


def is_number(value: Value) -> bool:
    """Whether it is one of the types of numbers."""
    return value.type in (INT, LONG, DOUBLE) or pa.types.is_decimal(value.type)


def to(value: Value, type_: pa.DataType) -> Value:
    """A number as another type of numbers; null where that can't hold it."""
    if value.type == type_:
        return value
    if type_ == DOUBLE:
        return each(float, DOUBLE, value)
    if pa.types.is_decimal(type_):
        return each(lambda number: fitted(Decimal(number), type_), type_, value)
    return each(lambda number: _within(int(number), type_), type_, value)


def fitted(number: Decimal, type_: pa.DataType) -> Decimal | None:
    """A number, rounded to a decimal type; None beyond it."""
    rounded = number.quantize(Decimal(1).scaleb(-type_.scale, _EXACT), ROUND_HALF_UP, _EXACT)
    return rounded if abs(rounded) < Decimal(10) ** (type_.precision - type_.scale) else None


def summed(left: Value, right: Value, sign: int) -> Value:
    """The sum of two numbers or, with sign -1, their difference."""
    return _calculated(left, right, lambda a, b: a + sign * b, _sum_type)


def _multiply(left: Value, right: Value) -> Value:
    """Multiply two numbers. Decimal ones are first rounded to all their digits, and then to their type."""

    def product(a: Any, b: Any) -> Any:
        exact = a * b
        return Context(prec=_MOST, rounding=ROUND_HALF_UP).plus(exact) if isinstance(exact, Decimal) else exact

    return _calculated(left, right, product, _product_type)


def _divide(left: Value, right: Value) -> Value:
    """Divide numbers; whole ones as doubles. Null where the divisor is 0."""
    if not _has_decimal((left, right)):
        left, right = to(left, DOUBLE), to(right, DOUBLE)

    def quotient(a: Any, b: Any) -> Any:
        if b == 0:
            return None
        if isinstance(a, float):
            return a / b
        ratio = Fraction(a) / Fraction(b)
        scaled = abs(ratio) * 10**_DIVISION_SCALE
        whole = math.floor(scaled + Fraction(1, 2))
        return Decimal(whole if ratio >= 0 else -whole).scaleb(-_DIVISION_SCALE, _EXACT)

    return _calculated(left, right, quotient, _quotient_type)


def _remainder(left: Value, right: Value) -> Value:
    """The rest of a division, with the sign of what is divided. Null where the divisor is 0."""

    def rest(a: Any, b: Any) -> Any:
        if b == 0:
            return None
        if isinstance(a, float):
            return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)
        return abs(a) % abs(b) * (-1 if a < 0 else 1)

    return _calculated(left, right, rest, _remainder_type)


def _absolute(value: Value) -> Value:
    """A number without its sign; that of the smallest whole number is kept."""
    edge = _RANGES.get(value.type)
    return each(lambda number: number if number == -(edge or math.inf) else abs(number), value.type, value)


def _rounded(value: Value) -> Value:
    """The nearest whole number; a half is rounded away from 0."""
    if pa.types.is_decimal(value.type):
        return _whole(value, math.floor, ROUND_HALF_UP)
    if value.type != DOUBLE:
        return value

    def nearest(number: float) -> float:
        if not math.isfinite(number):
            return number
        return float(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP, _EXACT))

    return each(nearest, DOUBLE, value)


def whole(value: Value) -> Value:
    """int() of a number: without its fraction; null beyond 64 bits."""

    def cut(number: Any) -> int | None:
        if not math.isfinite(number):
            return None
        # The double next to the largest whole number is just beyond it, and is taken for it.
        edge = _RANGES[LONG]
        return edge - 1 if isinstance(number, float) and number == edge else _within(int(number), LONG)

    return each(cut, LONG, value)


def as_argument(value: Value) -> Value:
    """A number as the 32 bits that functions of texts take, which wrap."""

    def wrapped(number: Any) -> int:
        if isinstance(number, float):
            edge = _RANGES[INT]
            return 0 if math.isnan(number) else int(max(-edge, min(number, edge - 1)))
        return (int(number) + (1 << 31)) % (1 << 32) - (1 << 31)

    return value if value.type == INT else each(wrapped, INT, value)


def compared(test: Callable[[Any, Any], bool], left: Value, right: Value) -> Value:
    """Compare two doubles: not-a-number is equal to itself, and larger than all others."""

    def key(number: float) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(number) else (False, number)

    return each(lambda a, b: test(key(a), key(b)), TRUTH, left, right)


def _calculated(
    left: Value, right: Value, calculate: Callable[[Any, Any], Any], result: Callable[..., pa.DataType]
) -> Value:
    """Numbers are calculated in their common type; decimal ones exactly, and then rounded to the type of the result."""
    if _has_decimal((left, right)) and DOUBLE not in (left.type, right.type):
        one, other = _own_decimal(left), _own_decimal(right)
        type_ = result(one.precision, one.scale, other.precision, other.scale)

        def exact(a: Any, b: Any) -> Decimal | None:
            with localcontext(_EXACT):
                value = calculate(Decimal(a), Decimal(b))
                return None if value is None else fitted(value, type_)

        return each(exact, type_, left, right)
    left, right = alike(left, right)
    if left.type == DOUBLE:
        return each(calculate, DOUBLE, left, right)
    return each(lambda a, b: _within(calculate(a, b), left.type), left.type, left, right)


def _within(number: int | None, type_: pa.DataType) -> int | None:
    edge = _RANGES[type_]
    return number if number is not None and -edge <= number < edge else None


def _has_decimal(values: tuple[Value, ...]) -> bool:
    return any(pa.types.is_decimal(value.type) for value in values)


def _own_decimal(value: Value) -> pa.DataType:
    """A whole number's type among decimal numbers; of a literal only as many digits as it has."""
    if value.type not in _DIGITS:
        return value.type
    if isinstance(value, pa.Scalar) and value.is_valid:
        return pa.decimal128(len(str(abs(value.as_py()))), 0)
    return pa.decimal128(_DIGITS[value.type], 0)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if DOUBLE in (one, other):
        return DOUBLE
    if not pa.types.is_decimal(one) and not pa.types.is_decimal(other):
        return LONG if LONG in (one, other) else INT
    (p1, s1), (p2, s2) = ((t.precision, t.scale) if pa.types.is_decimal(t) else (_DIGITS[t], 0) for t in (one, other))
    digits, scale = max(p1 - s1, p2 - s2), max(s1, s2)
    return pa.decimal128(min(digits + scale, _MOST), scale if digits + scale <= _MOST else max(_MOST - digits, 0))


def _bounded(precision: int, scale: int) -> pa.DataType:
    """A type of so many digits; of too many, some behind the point are given up."""
    if precision <= _MOST:
        return pa.decimal128(precision, scale)
    return pa.decimal128(_MOST, max(_MOST - (precision - scale), min(scale, _LEAST_SCALE)))


def _sum_type(p1: int, s1: int, p2: int, s2: int) -> pa.DataType:
    scale = max(s1, s2)
    return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _product_type(p1: int, s1: int, p2: int, s2: int) -> pa.DataType:
    return _bounded(p1 + p2 + 1, s1 + s2)


def _quotient_type(p1: int, s1: int, p2: int, s2: int) -> pa.DataType:
    scale = max(_LEAST_SCALE, s1 + p2 + 1)
    return _bounded(p1 - s1 + s2 + scale, scale)


def _remainder_type(p1: int, s1: int, p2: int, s2: int) -> pa.DataType:
    scale = max(s1, s2)
    return _bounded(min(p1 - s1, p2 - s2) + scale, scale)


def _whole(value: Value, of_double: Callable[[float], int], rounding: str) -> Value:
    if pa.types.is_decimal(value.type):
        type_ = pa.decimal128(min(value.type.precision - value.type.scale + 1, _MOST), 0)
        return each(lambda number: number.quantize(Decimal(1), rounding, _EXACT), type_, value)
    if value.type == INT:
        return value.cast(LONG)
    if value.type == LONG:
        return value

    def saturated(number: float) -> int:
        edge = _RANGES[LONG]
        if math.isnan(number):
            return 0
        return (
            max(-edge, min(of_double(number), edge - 1)) if math.isfinite(number) else edge - 1 if number > 0 else -edge
        )

    return each(saturated, LONG, value)


FUNCTIONS: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "try_multiply": _multiply,
        "try_divide": _divide,
        "try_mod": _remainder,
        "abs": _absolute,
        "ceil": lambda value: _whole(value, math.ceil, ROUND_CEILING),
        "floor": lambda value: _whole(value, math.floor, ROUND_FLOOR),
        "round": _rounded,
    }
)
