"""The one clock of a run, and how times are computed with."""

from datetime import UTC, datetime, timedelta

from messagestore_core.contract.run_document import RunDocument


def now(document: RunDocument) -> datetime:
    """The time that every time rule of the run sees, in UTC."""
    return (document.at or datetime.now(UTC)).astimezone(UTC)


def shifted(moment: datetime, by: timedelta) -> datetime:
    """A moment in UTC plus a length of time, which may be negative; at most the first or the last moment there is."""
    try:
        return moment + by
    except OverflowError:
        return (datetime.min if by < timedelta(0) else datetime.max).replace(tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970, without rounding by floats."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
