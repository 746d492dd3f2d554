"""Times: read from text and written as Spark does, and moved."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from messagestore_core.predicate.arrow.values import BLANK, JAVA_BLANK, LENGTH, TIME, NotExactError, Value, each

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_ERA_DAYS, _ERA_YEARS = 146_097, 400
"""The calendar repeats itself after so many days, which are so many years."""
_INT64 = 1 << 63
_FORM = re.compile(
    rb"(?P<sign>[+-])?(?P<year>\d{4,6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[ T](?P<time>.+))?)?)?", re.DOTALL
)
_CLOCK = re.compile(rb"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?", re.DOTALL)
_ONLY_CLOCK = re.compile(rb"(?:T(?P<after>\d{1,2}.*)|(?P<bare>\d{1,2}:.*))", re.DOTALL)
_OFFSET = re.compile(r"([+-])(?:(\d)|(\d\d)(?::?(\d\d)(?::?(\d\d))?)?)", re.ASCII)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "ACT": "Australia/Darwin",
        "AET": "Australia/Sydney",
        "AGT": "America/Argentina/Buenos_Aires",
        "ART": "Africa/Cairo",
        "AST": "America/Anchorage",
        "BET": "America/Sao_Paulo",
        "BST": "Asia/Dhaka",
        "CAT": "Africa/Harare",
        "CNT": "America/St_Johns",
        "CST": "America/Chicago",
        "CTT": "Asia/Shanghai",
        "EAT": "Africa/Addis_Ababa",
        "ECT": "Europe/Paris",
        "IET": "America/Indiana/Indianapolis",
        "IST": "Asia/Kolkata",
        "JST": "Asia/Tokyo",
        "MIT": "Pacific/Apia",
        "NET": "Asia/Yerevan",
        "NST": "Pacific/Auckland",
        "PLT": "Asia/Karachi",
        "PNT": "America/Phoenix",
        "PRT": "America/Puerto_Rico",
        "PST": "America/Los_Angeles",
        "SST": "Pacific/Guadalcanal",
        "VST": "Asia/Ho_Chi_Minh",
        "EST": "-05:00",
        "MST": "-07:00",
        "HST": "-10:00",
    }
)
"""Java's short names of zones."""


def moved(left: Value, right: Value, sign: int) -> Value:
    """A time or a length of time and a length, or two times; null beyond 64 bits of microseconds."""
    types = {left.type, right.type}
    type_ = LENGTH if types == {LENGTH} or (left.type, right.type) == (TIME, TIME) else TIME

    def calculated(a: int, b: int) -> int | None:
        result = a + sign * b
        return result if -_INT64 <= result < _INT64 else None

    return each(calculated, type_, left, right)


def microseconds_of(literal: str) -> int:
    """A time that a predicate has as a literal, in microseconds."""
    at = read_time(literal.encode())
    assert at is not None
    return at


def read_time(text: bytes) -> int | None:
    """A time in microseconds, without a zone in UTC; None if the text is none.

    Raises:
        NotExactError: the zone's rules are not known here.
    """
    # Spark tells a time of day, which is today's, before it takes blanks off.
    only_clock = (
        _ONLY_CLOCK.fullmatch(text.rstrip(BLANK)) if text[:1] == b"T" else _ONLY_CLOCK.fullmatch(text.strip(BLANK))
    )
    if only_clock and (text[:1] == b"T" or only_clock["bare"]):
        return _today(only_clock["after"] or only_clock["bare"])
    form = _FORM.fullmatch(text.strip(BLANK))
    if form is None:
        return None
    year = int(form["year"]) * (-1 if form["sign"] == b"-" else 1)
    clock, zone = _clock(form["time"] or b"0")
    days = _days(year, int(form["month"] or 1), int(form["day"] or 1))
    return None if days is None or clock is None else _instant(days, clock, zone)


def write_time(at: int) -> bytes:
    """A time in UTC, as string() gives it."""
    days, clock = divmod(at, _DAY)
    eras, rest = divmod(days + _EPOCH.toordinal() - 1, _ERA_DAYS)
    day = date.fromordinal(rest + 1)
    year = day.year + eras * _ERA_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    seconds, fraction = divmod(clock, _SECOND)
    behind = f".{fraction:06}".rstrip("0") if fraction else ""
    hours, minutes = divmod(seconds // 60, 60)
    shown = f"{sign}{abs(year):04}-{day.month:02}-{day.day:02} {hours:02}:{minutes:02}:{seconds % 60:02}{behind}"
    return shown.encode()


def _clock(text: bytes) -> tuple[int | None, str | None]:
    """The time of day in microseconds, and the zone's name."""
    form = _CLOCK.fullmatch(text)
    if form is None:
        return None, None
    hour, minute, second = (int(form[at] or 0) for at in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None, None
    fraction = int((form[4] or b"")[:6].ljust(6, b"0"))
    clock = ((hour * 60 + minute) * 60 + second) * _SECOND + fraction
    return clock, None if form[5] is None else form[5].decode(errors="replace")


def _days(year: int, month: int, day: int) -> int | None:
    """The days since 1970 of a date of the Gregorian calendar in any year; None if there is no such date."""
    eras, of_era = divmod(year - 1, _ERA_YEARS)
    try:
        return date(of_era + 1, month, day).toordinal() + eras * _ERA_DAYS - _EPOCH.toordinal()
    except ValueError:
        return None


def _today(text: bytes) -> int | None:
    clock, zone = _clock(text)
    if clock is None:
        return None
    time_zone = _zone(zone)
    if time_zone is None:
        return None
    return _instant(datetime.now(time_zone).date().toordinal() - _EPOCH.toordinal(), clock, zone)


def _instant(days: int, clock: int, name: str | None) -> int | None:
    zone, local = _zone(name), days * _DAY + clock
    if zone is None:
        return None
    if isinstance(zone, timezone):
        offset = zone.utcoffset(None)
    else:
        try:
            moment = (_EPOCH + timedelta(microseconds=local)).replace(tzinfo=zone)
        except OverflowError:
            raise NotExactError(f"the zone {name} of a time beyond the year 9999 is not known here") from None
        offset = moment.utcoffset() or timedelta()
    at = local - offset // timedelta(microseconds=1)
    return at if -_INT64 <= at < _INT64 else None


def _zone(name: str | None) -> timezone | ZoneInfo | None:
    """A zone by its name or offset, as Java's ZoneId.of reads it; None if there is none of that name."""
    if name is None:
        return UTC
    # Spark takes h:mm and hh:m for hh:mm.
    text = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name.strip(JAVA_BLANK), count=1, flags=re.ASCII)
    text = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", text, count=1, flags=re.ASCII)
    text = _SHORT.get(text, text)
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    prefix = next((prefix for prefix in ("UTC", "GMT", "UT") if text.startswith((f"{prefix}+", f"{prefix}-"))), "")
    if prefix or text[:1] in ("+", "-"):
        return _offset(text.removeprefix(prefix))
    if not _REGION.fullmatch(text):
        return None
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(text: str) -> timezone | None:
    form = _OFFSET.fullmatch(text)
    if form is None:
        return None
    hours, minutes, seconds = int(form[2] or form[3]), int(form[4] or 0), int(form[5] or 0)
    if minutes > 59 or seconds > 59 or (hours, minutes, seconds) > (18, 0, 0):
        return None
    return timezone(timedelta(hours=hours, minutes=minutes, seconds=seconds) * (-1 if form[1] == "-" else 1))
