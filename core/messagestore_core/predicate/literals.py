"""Literals: read as Spark reads them, and limited to values that Spark can hold."""

import re
from datetime import UTC, datetime

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII)
_NUMBER = re.compile(r"-?(?=\.?\d)(\d*)(?:\.(\d*))?([eE][+-]?\d{1,4})?", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_MAX_INTERVAL = 100_000_000
_INTERVAL_UNITS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})
_DECIMAL_DIGITS = 38
_INT64 = range(-(2**63), 2**63)
# U+FFFD is also what is read in place of bytes that are no UTF-8, which a plain comparison tells from it.
_SIMPLE_LIKE = re.compile(r"%?[^%_\\\ufffd]*%?|[^%_\\\ufffd]+%[^%_\\\ufffd]+")
MAX_PATTERN = 512
# A part of what the function in Spark takes: otherwise each record would fail, and not the manifest.
_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\['(?:[^'\\]|\\['\\])*'\]|\[[0-9]{1,9}\])*")
_PATH_LENGTH = 1024


def read_string(source: str) -> str:
    r"""Give the value of a string literal (``\n``, ``\u00e9``, ``\'`` and ``''`` for ``'``).

    Raises ValueError if its value is not Unicode text.
    """
    quote = source[0]
    # A quote that is doubled stands behind an even number of backslashes, as each pair of these is taken first.
    doubled = re.sub(rf"(\\.)|{quote}{quote}", lambda match: match[1] or f"\\{quote}", source[1:-1], flags=re.DOTALL)
    value = _ESCAPE.sub(_unescape, doubled)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("holds half of a surrogate pair, which is no Unicode text")
    return value


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, plain = match.groups()
    if plain is not None:
        return _ESCAPED.get(plain, plain)
    code = int(octal, 8) if octal else int(short or long, 16)
    if code > 0x10FFFF:
        raise ValueError("holds an escape that is no Unicode character")
    return chr(code)


def read_number(text: str) -> str:
    """Give a number as it is written; ValueError if it is no number that Spark can hold."""
    match = _NUMBER.fullmatch(text)
    if not match:
        raise ValueError("is no decimal number")
    whole, fraction, exponent = match.groups()
    if exponent is not None:
        if abs(float(text)) == float("inf"):
            raise ValueError("is beyond a double")
    elif fraction is not None:
        if len(whole) + len(fraction) > _DECIMAL_DIGITS:
            raise ValueError(f"has more than {_DECIMAL_DIGITS} digits")
    elif int(text) not in _INT64:
        raise ValueError("is beyond 64 bits")
    return text


def read_timestamp(text: str) -> str:
    """Give an RFC 3339 time in UTC; a time without a zone is in UTC. ValueError if it is no time."""
    if not _TIME.fullmatch(text):
        raise ValueError("is no time: write it as 2026-01-05T08:15:00Z")
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"is no time: {error}") from None
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def read_interval(text: str) -> str:
    """Give an interval such as ``30 DAY``; ValueError for months and years, which have no fixed length."""
    amount, _, unit = text.upper().partition(" ")
    days, name = (7, "DAY") if unit.startswith("WEEK") else (1, unit.removesuffix("S"))
    count = int(amount) * days if _COUNT.fullmatch(amount) else _MAX_INTERVAL + 1
    if count > _MAX_INTERVAL or name not in _INTERVAL_UNITS:
        raise ValueError("is no interval taken here: write INTERVAL 30 DAY, with WEEK, DAY, HOUR, MINUTE or SECOND")
    return f"{count} {name}"


def check_path(path: str) -> str:
    """Give a JSON path; ValueError if it has anything but ``$``, ``.name``, ``['name']`` and ``[n]``."""
    if len(path) > _PATH_LENGTH:
        raise ValueError(f"is a path longer than {_PATH_LENGTH} characters")
    if not _PATH.fullmatch(path):
        raise ValueError(
            "is no path: a path is $ followed by .name, ['name'] or [n]; no wildcards, filters or recursion"
        )
    return path


def escape_like(pattern: str, escape: str) -> str:
    """Give a LIKE pattern with backslash as its escape; ValueError if a sign other than ``%``, ``_`` is escaped."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"is a pattern longer than {MAX_PATTERN} characters")
    written = []
    rest = iter(pattern)
    for character in rest:
        sign = next(rest, "") if character == escape else None
        if sign is None:
            written.append("\\\\" if character == "\\" else character)
        elif sign in ("%", "_", escape):
            written.append(f"\\{sign}" if sign in "%_\\" else sign)
        else:
            raise ValueError(f"is a pattern in which {escape} stands before something else than %, _ or itself")
    return "".join(written)


def is_simple_like(pattern: str) -> bool:
    """Tell whether Spark turns a pattern into a plain comparison."""
    return _SIMPLE_LIKE.fullmatch(pattern) is not None
