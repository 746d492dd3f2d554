"""Times as a status writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from messagestore_operator.api.columns import age
from messagestore_operator.api.scalars import Time

_FIRST_YEAR = 1000


def clock_time(moment: datetime | None) -> Time | None:
    """When something was done, in whole seconds as Kubernetes writes them."""
    return None if moment is None else Time.of(moment.astimezone(UTC).replace(microsecond=0))


def message_time(moment: datetime | None) -> Time | None:
    """A time that a producer gave, exactly; None for one that RFC 3339 has no sensible form for."""
    if moment is None or moment.year < _FIRST_YEAR:
        return None
    return Time.of(moment)


def ago(moment: datetime, now: datetime) -> str:
    """How long ago something was, as kubectl would write its age."""
    return f"{age(min(moment, now).isoformat(), now)} ago"
