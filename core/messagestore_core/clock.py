"""The one clock of a run, and how times are computed with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from messagestore_core.bounds import FIRST_MOMENT, LAST_MOMENT

if TYPE_CHECKING:
    from messagestore_core.contract.run_document import RunDocument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now(document: RunDocument) -> datetime:
    """The time that every time rule of the run sees, in UTC."""
    return (document.at or datetime.now(UTC)).astimezone(UTC)


def shifted(moment: datetime, by: timedelta) -> datetime:
    """A moment in UTC plus a length of time, which may be negative; at most the first or the last moment there is."""
    try:
        return moment + by
    except OverflowError:
        return FIRST_MOMENT if by < timedelta(0) else LAST_MOMENT


def in_utc(time: datetime | str) -> datetime:
    """A time of a table's log, an audit or a caller, or its ISO 8601 text; without a zone it is in UTC.

    Raises:
        ValueError: the text is no time, or the time in UTC is outside of the years 1 to 9999.
    """
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError(f"{moment.isoformat()} is outside of the years 1 to 9999 in UTC") from None


def rfc3339(moment: datetime) -> str:
    """A time in UTC as people write it, without trailing zeros of its fraction."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970, without rounding by floats."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(since_1970: int) -> datetime:
    """The time, in UTC, of microseconds since 1970, without rounding by floats.

    Raises:
        OverflowError: it is before year 1 or after 9999.
    """
    return _EPOCH + timedelta(microseconds=since_1970)
