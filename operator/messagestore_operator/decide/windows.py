"""When runs that are no ingest may start."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore_operator.api.common import Schedule
from messagestore_operator.decide.schedule import latest_time, next_time


@dataclass(frozen=True)
class Window:
    """It opens at each point in time of a schedule, and for so long."""

    schedule: Schedule
    duration: timedelta

    def is_open(self, now: datetime) -> bool:
        """Whether it has opened, and not closed since."""
        return latest_time(self.schedule, now - self.duration, now) is not None


def opens_at(windows: Collection[Window], now: datetime) -> datetime | None:
    """When the next window opens; None where one is open, or there are none to wait for."""
    if not windows or any(window.is_open(now) for window in windows):
        return None
    return min(next_time(window.schedule, now) for window in windows)
