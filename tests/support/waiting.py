"""Waits for asynchronous results, as long as this machine may need."""

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

_LOOPS = 1_000_000
_LOOPS_SECONDS = 0.05
"""The time on the machine for which the tests' seconds were chosen."""
_MOST = 5.0
"""The maximum factor, so that a test that hangs still fails."""
_TURNS = 3
"""So many times as long a wait may last while there is progress."""


def wait_until(
    true: Callable[[], Any],
    seconds: float,
    failure: Callable[[], str],
    *,
    alive: Callable[[], bool] = lambda: True,
    progress: Callable[[], Any] = lambda: None,
    beat: float = 0.1,
) -> Any:
    """The result of a check as soon as it is true.

    Args:
        true: the check.
        seconds: how long it may take on an idle machine; while there is progress, three times as long.
        failure: describes the state on failure.
        alive: whether there is still something to wait for.
        progress: anything that changes while what is awaited is on its way.
        beat: seconds between two checks.

    Raises:
        AssertionError: it took longer, or nothing is alive.
    """
    began = last_change = time.monotonic()
    reached = progress()
    while not (found := true()):
        now, most = time.monotonic(), scaled(seconds)
        if (changed := progress()) != reached:
            reached, last_change = changed, now
        if not alive() or now - last_change > most or now - began > _TURNS * most:
            raise AssertionError(f"not within {now - began:.0f} s: {failure()}")
        time.sleep(beat)
    return found


def scaled(seconds: float) -> float:
    """How long something may take on this machine now, if it takes ``seconds`` on an idle one."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(_MOST, _slowness() * max(1.0, busy))


@cache
def _slowness() -> float:
    return max(1.0, min(_seconds_of_loops() for _ in range(3)) / _LOOPS_SECONDS)


def _seconds_of_loops() -> float:
    began, total = time.perf_counter(), 0
    for number in range(_LOOPS):
        total += number % 7
    return time.perf_counter() - began
