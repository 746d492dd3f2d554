"""Texts: Spark's functions of bytes that should be UTF-8, and what text becomes where another kind is needed."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from messagestore_core.predicate.arrow.numbers import as_argument, fitted
from messagestore_core.predicate.arrow.values import (
    BLANK,
    BYTES,
    INT,
    JAVA_BLANK,
    LONG,
    TEXT,
    TRUTH,
    NotExactError,
    Value,
    each,
)

DECIMAL = pa.decimal128(38, 18)
_MAX_INT = (1 << 31) - 1
_FIRST, _EVERY = pa.scalar(1, INT), pa.scalar(_MAX_INT, INT)
_WHOLE = re.compile(rb"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,10}))?")
_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half of a surrogate pair as UTF-8, or its first bytes: Java reads one sign there, and Python one for each byte."""
_TRUTHS = {
    **dict.fromkeys((b"t", b"true", b"y", b"yes", b"1"), True),
    **dict.fromkeys((b"f", b"false", b"n", b"no", b"0"), False),
}


def _length(value: Value) -> Value:
    """Characters of a text, bytes of other values."""
    return each(len if value.type == BYTES else lambda text: sum(1 for _ in _characters(text)), INT, value)


def _substring(value: Value, first: Value, count: Value = _EVERY) -> Value:
    """A part by characters, counted from 1, or backwards from the end."""
    return each(_part, TEXT, value, as_argument(first), as_argument(count))


def _right(value: Value, count: Value) -> Value:
    return each(lambda text, n: b"" if n <= 0 else _part(text, -n, _MAX_INT), TEXT, value, as_argument(count))


def like(value: Value, pattern: pa.Scalar) -> Value:
    """LIKE with backslash as its escape. What stands between two ``%`` is searched once, from the left."""
    parts = _parts(pattern.as_py())
    first, *middle = parts
    last = middle.pop() if middle else None

    def matches(text: bytes) -> bool:
        characters = _HALF.sub("\ufffd".encode(), text).decode(errors="replace")
        if last is None:
            return first.fullmatch(characters) is not None
        begun = first.match(characters)
        return begun is not None and _goes_on(characters, begun.end(), middle, last)

    return each(matches, TRUTH, value)


def as_whole(value: Value) -> Value:
    """int() of a text; null if it is no whole number of 64 bits."""

    def read(text: bytes) -> int | None:
        digits = text.strip(BLANK)
        # More digits are a number beyond 64 bits, or zeros; Python reads a few thousand at most.
        short = digits[:1] + digits[1:].lstrip(b"0") if len(digits) > 40 else digits
        if not _WHOLE.fullmatch(digits) or len(short) > 40:
            return None
        number = int(short if _WHOLE.fullmatch(short) else b"0")
        return number if -(1 << 63) <= number < 1 << 63 else None

    return each(read, LONG, value)


def as_truth(value: Value) -> Value:
    """bool() of a text; null if it is none of the words for one."""
    return each(lambda text: _TRUTHS.get(text.strip(BLANK).lower()), TRUTH, value)


def _cased(text: bytes, change: Callable[[str], str]) -> bytes:
    if text.isascii():
        return change(text.decode()).encode()
    characters = text.decode(errors="replace")
    if any(unicodedata.category(character) == "Cn" for character in characters):
        raise NotExactError(
            "lower() and upper() know the characters of Unicode "
            f"{unicodedata.unidata_version} here, and a text has a newer one; compare the text as it is"
        )
    return change(characters).encode()


def _characters(text: bytes) -> Iterator[int]:
    """Where each character begins, by its first byte alone."""
    at = 0
    while at < len(text):
        yield at
        at += _bytes_of(text[at])


def _bytes_of(first: int) -> int:
    if 0xC2 <= first <= 0xDF:
        return 2
    return 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 1


def _part(text: bytes, first: int, count: int) -> bytes:
    begins = range(len(text)) if text.isascii() else list(_characters(text))
    start = first - 1 if first > 0 else len(begins) + first if first < 0 else 0
    end = max(-_MAX_INT - 1, min(start + count, _MAX_INT))
    if end <= start or start >= len(text):
        return b""
    begin, until = max(start, 0), max(end, 0)
    edges = [*begins, len(text)] if begin < len(begins) or until < len(begins) else [len(text)]
    return text[edges[min(begin, len(edges) - 1)] : edges[min(until, len(edges) - 1)]]


def _parts(pattern: str) -> list[re.Pattern[str]]:
    """What stands before, between and after the ``%``, each of a fixed length."""
    parts, part, signs = [], "", iter(pattern)
    for sign in signs:
        if sign == "%":
            parts.append(part)
            part = ""
        elif sign == "_":
            part += "."
        else:
            part += re.escape(next(signs, sign) if sign == "\\" else sign)
    return [re.compile(one, re.DOTALL) for one in (*parts, part)]


def _goes_on(text: str, at: int, middle: list[re.Pattern[str]], last: re.Pattern[str]) -> bool:
    for part in middle:
        match = part.search(text, at)
        if match is None:
            return False
        at = match.end()
    ending = last.fullmatch(text, max(at, len(text) - _width(last)))
    return ending is not None


def _width(part: re.Pattern[str]) -> int:
    """How many characters a part matches."""
    return len(re.sub(r"\\(.)", r"\1", part.pattern, flags=re.DOTALL))


def _decimal(text: bytes) -> Decimal | None:
    form = _NUMBER.fullmatch(text.decode(errors="replace").strip(JAVA_BLANK))
    if form is None or any(character > "\uffff" for character in form[0]):
        return None
    sign, before, behind, exponent = form[1], form[2], form[3] or "", int(form[4] or 0)
    if not -(1 << 31) < exponent < 1 << 31:
        return None
    digits = "".join(str(int(digit)) for digit in before + behind).lstrip("0") or "0"
    exponent -= len(behind)
    if digits == "0":
        return Decimal(0).scaleb(-DECIMAL.scale)
    if len(digits) + exponent > DECIMAL.precision:
        return None
    if len(digits) + exponent < -DECIMAL.scale:
        return Decimal(0).scaleb(-DECIMAL.scale)
    return fitted(Decimal((int(sign == "-"), tuple(map(int, digits)), exponent)), DECIMAL)


FUNCTIONS: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "lower": lambda value: each(lambda text: _cased(text, str.lower), TEXT, value),
        "upper": lambda value: each(lambda text: _cased(text, str.upper), TEXT, value),
        "trim": lambda value: each(lambda text: text.strip(b" "), TEXT, value),
        "length": _length,
        "concat": lambda *values: each(lambda *texts: b"".join(texts), TEXT, *values),
        "substring": _substring,
        "left": lambda value, count: _substring(value, _FIRST, count),
        "right": _right,
        "startswith": partial(each, bytes.startswith, TRUTH),
        "endswith": partial(each, bytes.endswith, TRUTH),
        "contains": partial(each, bytes.__contains__, TRUTH),
        # Null if it is no number, or has more than 20 digits before the point.
        "decimal": partial(each, _decimal, DECIMAL),
    }
)
