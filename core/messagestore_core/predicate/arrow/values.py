"""Values of all rows, or one value for all of them, and functions that are applied row by row."""

from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeAlias

import pyarrow as pa

Value: TypeAlias = pa.Array | pa.Scalar
"""A column of the rows, or the value of a constant.

Text is pa.string(), and may be no UTF-8: Spark's text may be any bytes. So ``each`` reads it as bytes.
"""

INT, LONG, DOUBLE = pa.int32(), pa.int64(), pa.float64()
TEXT, BYTES, TRUTH = pa.string(), pa.binary(), pa.bool_()
TIME, LENGTH = pa.timestamp("us", tz="UTC"), pa.duration("us")

BLANK, JAVA_BLANK = bytes(range(0x21)) + b"\x7f", "".join(map(chr, range(0x21)))
"""What Spark, and what Java's ``trim``, takes off both ends of a text."""


class NotExactError(ValueError):
    """A predicate needs what this engine can't compute exactly as Spark does; the message says what to write."""


def each(function: Callable[..., Any], type_: pa.DataType, *values: Value) -> Value:
    """Apply a function to each row; its text is bytes, its times are microseconds. A null gives null."""
    sized = list(map(_sized, values))
    if all(isinstance(value, pa.Scalar) for value in sized):
        (only,) = each(function, type_, *(pa.array([value.as_py()], value.type) for value in sized))
        return only
    columns = (repeat(value.as_py()) if isinstance(value, pa.Scalar) else value.to_pylist() for value in sized)
    results = [None if None in row else function(*row) for row in zip(*columns, strict=False)]
    if type_ == TEXT:
        return as_text(pa.array(results, BYTES))
    return pa.array(results, LONG).cast(type_) if type_ in (TIME, LENGTH) else pa.array(results, type_)


def as_text(value: pa.Array) -> pa.Array:
    """Bytes as text, whatever they are."""
    return value.cast(TEXT, safe=False)


def _sized(value: Value) -> Value:
    """The value in a type whose values Python reads as they are."""
    if value.type == TEXT:
        return value.cast(BYTES)
    return value.cast(LONG) if value.type in (TIME, LENGTH) else value
