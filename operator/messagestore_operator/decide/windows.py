"""When runs other than ingests may start."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore_core.clock import shifted
from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import latest_time, next_time


@dataclass(frozen=True)
class Window:
    """A window that opens at each time of a schedule, for a duration."""

    schedule: Schedule
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Whether it is open at a time."""
        return latest_time(self.schedule, shifted(now, -self.duration), now) is not None


def opens_at(windows: Collection[Window], now: datetime) -> datetime | None:
    """When the next window opens; None if one is open or there are no windows."""
    if not windows or any(window.is_open(now) for window in windows):
        return None
    return min(next_time(window.schedule, now) for window in windows)
