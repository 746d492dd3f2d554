"""Ages, as kubectl writes them."""

import datetime as dt


def age(time: str, now: dt.datetime) -> str:
    """How long ago a time was, as kubectl writes it."""
    try:
        seconds = int((now - dt.datetime.fromisoformat(time)).total_seconds())
    except ValueError:
        return "<invalid>"
    return "<invalid>" if seconds < -1 else _duration(max(seconds, 0))


def _duration(seconds: int) -> str:
    """The longer, the coarser: 119s, 9m59s, 179m, 7h59m, 47h, 7d23h, 729d, 7y364d, 8y."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (minutes < 2, f"{seconds}s"),
        (minutes < 10, _two(minutes, "m", seconds % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
