"""How long to wait before the next try."""

from __future__ import annotations

import hashlib
from datetime import timedelta

_MOST_DOUBLINGS = 32
_SPREAD = 0.2


def backoff(failures: int, base: timedelta, longest: timedelta, jitter: float = 0.0) -> timedelta:
    """The wait doubles with each failure, from ``base`` to ``longest``; jitter adds up to a fifth.

    Args:
        failures: how many so far, at least one.
        base: the wait after the first.
        longest: the longest wait, before jitter.
        jitter: from 0 to 1.
    """
    doubled: timedelta = base * 2 ** min(max(failures, 1) - 1, _MOST_DOUBLINGS)
    waits: timedelta = min(doubled, longest) * (1 + _SPREAD * jitter)
    return waits


def jitter_of(key: str) -> float:
    """A number from 0 to 1, always the same for a key, so that runs that failed together are not retried together."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
