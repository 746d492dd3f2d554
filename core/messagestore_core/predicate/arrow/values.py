"""Values of all rows, or one value for all of them, and functions that are applied row by row."""

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa

Value: TypeAlias = pa.Array | pa.Scalar
"""A column of the rows, or the value of a constant.

Text is pa.string(), and may be no UTF-8: Spark's text may be any bytes. So it is never read as Python's, see ``plain``.
"""

INT, LONG, DOUBLE = pa.int32(), pa.int64(), pa.float64()
TEXT, BYTES, TRUTH = pa.string(), pa.binary(), pa.bool_()
TIME, LENGTH = pa.timestamp("us", tz="UTC"), pa.duration("us")

BLANK, JAVA_BLANK = bytes(range(0x21)) + b"\x7f", "".join(map(chr, range(0x21)))
"""What Spark, and what Java's ``trim``, takes off both ends of a text."""


class NotExactError(ValueError):
    """A predicate needs what this engine can't compute exactly as Spark does; the message says what to write."""


def is_constant(*values: Value) -> bool:
    """Whether all are constants."""
    return all(isinstance(value, pa.Scalar) for value in values)


def each(function: Callable[..., Any], type_: pa.DataType, *values: Value) -> Value:
    """Apply a function to each row; its text is bytes, its times are microseconds. A null gives null."""
    if is_constant(*values):
        (only,) = each(function, type_, *(pa.array([value.as_py()], value.type) for value in map(_sized, values)))
        return only
    rows = zip(*(plain(value) for value in values), strict=False)
    results = [None if None in row else function(*row) for row in rows]
    return made(results, type_)


def plain(value: Value) -> Iterator[Any]:
    """The values as Python's, of all rows; those of a constant without end."""
    stored = _sized(value)
    return repeat(stored.as_py()) if isinstance(stored, pa.Scalar) else iter(stored.to_pylist())


def made(values: list[Any], type_: pa.DataType) -> pa.Array:
    """A column of values as ``plain`` gives them."""
    if type_ == TEXT:
        return as_text(pa.array(values, BYTES))
    if type_ in (TIME, LENGTH):
        return pa.array(values, LONG).cast(type_)
    return pa.array(values, type_)


def as_text(value: pa.Array) -> pa.Array:
    """Bytes as text, whatever they are."""
    return value.cast(TEXT, safe=False)


def _sized(value: Value) -> Value:
    """The value in a type whose values Python reads as they are."""
    if value.type == TEXT:
        return value.cast(BYTES)
    return value.cast(LONG) if value.type in (TIME, LENGTH) else value
