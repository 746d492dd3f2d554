"""Literals: read as Spark reads them, and limited to values that Spark can hold."""

import re
from datetime import UTC, date, datetime

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_RAW = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""")

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII)
_NUMBER = re.compile(r"-?(?=\.?\d)(\d*)(?:\.(\d*))?([eE][+-]?\d{1,4})?", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_MAX_INTERVAL = 100_000_000
_INTERVAL_UNITS = frozenset({"DAY", "HOUR", "MINUTE", "SECOND"})
_DECIMAL_DIGITS = 38
_INT64 = range(-(2**63), 2**63)

# A part of what the function in Spark takes: otherwise each record would fail, and not the manifest.
_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\['(?:[^'\\]|\\['\\])*'\]|\[[0-9]{1,9}\])*")
_PATH_LENGTH = 1024


def read_string(source: str) -> str:
    r"""Give the value of a string literal as Spark's parser does (`\n`, `\u00e9`, `\'`, r'raw').

    Raises ValueError if `source` is not one literal, or its value is not Unicode text.
    """
    if _RAW.fullmatch(source):
        value = source[2:-1]
    elif _QUOTED.fullmatch(source):
        value = _ESCAPE.sub(_unescape, source[1:-1])
    else:
        raise ValueError("is no string literal that Spark knows")
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


def read_date(text: str) -> str:
    """Give a date such as `2026-01-05`; ValueError if it is no date."""
    if not _DATE.fullmatch(text):
        raise ValueError("is no date: write it as 2026-01-05")
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ValueError(f"is no date: {error}") from None


def read_timestamp(text: str) -> str:
    """Give an RFC 3339 time in UTC; a time without a zone is in UTC. ValueError if it is no time."""
    if not _TIME.fullmatch(text):
        raise ValueError("is no time: write it as 2026-01-05T08:15:00Z")
    head, point, tail = text.partition(".")
    digits = re.match(r"\d*", tail)
    padded = digits.group().ljust(6, "0") + tail[digits.end() :] if digits and point else ""
    try:
        moment = datetime.fromisoformat(f"{head}{point}{padded}")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"is no time: {error}") from None
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def read_bytes(digits: str) -> str:
    """Give bytes as hexadecimal digits; ValueError if the digits make no bytes."""
    try:
        return bytes.fromhex(digits).hex()
    except ValueError:
        raise ValueError("is no row of bytes: write X'00ff'") from None


def read_interval(text: str) -> str:
    """Give an interval such as `30 DAY`; ValueError for months and years, which have no fixed length."""
    amount, _, unit = text.upper().partition(" ")
    days, name = (7, "DAY") if unit.startswith("WEEK") else (1, unit.removesuffix("S"))
    count = int(amount) * days if _COUNT.fullmatch(amount) else _MAX_INTERVAL + 1
    if count > _MAX_INTERVAL or name not in _INTERVAL_UNITS:
        raise ValueError("is no interval taken here: write INTERVAL 30 DAY, with WEEK, DAY, HOUR, MINUTE or SECOND")
    return f"{count} {name}"


def check_path(path: str) -> None:
    """Raise ValueError if a JSON path has anything but `$`, `.name`, `['name']` and `[n]`."""
    if len(path) > _PATH_LENGTH:
        raise ValueError(f"is a path longer than {_PATH_LENGTH} characters")
    if not _PATH.fullmatch(path):
        raise ValueError(
            "is no path: a path is $ followed by .name, ['name'] or [n]; no wildcards, filters or recursion"
        )
