"""Numbers, sizes and times as people read them."""

from datetime import UTC, datetime, timedelta

UNKNOWN = "?"
_BYTES = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
_COUNTS = (("G", 10**9), ("M", 10**6), ("k", 10**3), ("", 1))
_SECONDS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1), ("ms", 0.001))
_UNITS = {"bytes": _BYTES, "seconds": _SECONDS}


def short_number(value: float, unit: str = "") -> str:
    """A number with few digits: 1.2 M; of bytes or seconds 1.2 GiB, 3 min."""
    steps = _UNITS.get(unit, _COUNTS)
    name, size = next((step for step in steps if abs(value) >= step[1]), steps[-1])
    return f"{value / size:.3g} {name}".rstrip()


def number(value: int | None) -> str:
    """A whole number with all its digits; UNKNOWN without one."""
    return UNKNOWN if value is None else f"{value:,}"


def size(value: int) -> str:
    """Bytes, rounded."""
    return short_number(value, "bytes")


def span(value: timedelta | None) -> str:
    """A duration, rounded; UNKNOWN without one."""
    return UNKNOWN if value is None else short_number(value.total_seconds(), "seconds") if value else "0 s"


def time(value: datetime | None) -> str:
    """A time to the second, in UTC; UNKNOWN without one."""
    return UNKNOWN if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
