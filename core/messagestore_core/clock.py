"""The one clock of a run."""

from datetime import UTC, datetime, timedelta

from messagestore_core.contract.run_document import RunDocument


def now(document: RunDocument) -> datetime:
    """The time that every time rule of the run sees, in UTC."""
    return (document.at or datetime.now(UTC)).astimezone(UTC)


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970, without rounding by floats."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
