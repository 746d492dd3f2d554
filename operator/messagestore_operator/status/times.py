"""Times in a status."""

from __future__ import annotations

from datetime import UTC, datetime

from messagestore_operator.api.columns import age
from messagestore_operator.api.scalars import Time

_FIRST_YEAR = 1000


def clock_time(moment: datetime | None) -> Time | None:
    """The time of an action, in whole seconds, as in Kubernetes."""
    return None if moment is None else Time.of(moment.astimezone(UTC).replace(microsecond=0))


def message_time(moment: datetime | None) -> Time | None:
    """A producer's time, exactly; None if RFC 3339 can't express it."""
    if moment is None or moment.year < _FIRST_YEAR:
        return None
    return Time.of(moment)


def ago(moment: datetime, now: datetime) -> str:
    """How long ago a moment was, in kubectl's form of ages."""
    return f"{age(min(moment, now).isoformat(), now)} ago"
