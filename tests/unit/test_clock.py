"""Times that are computed with lengths of any size, and taken in UTC."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from messagestore_core.bounds import FIRST_MOMENT, LAST_MOMENT
from messagestore_core.clock import in_utc, microseconds, shifted

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LONGER_THAN_TIME = timedelta(days=999_999)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (timedelta(days=1), datetime(2026, 1, 6, 12, tzinfo=UTC)),
        (-timedelta(days=5), datetime(2025, 12, 31, 12, tzinfo=UTC)),
        (-LONGER_THAN_TIME, datetime.min.replace(tzinfo=UTC)),
        (8 * LONGER_THAN_TIME, datetime.max.replace(tzinfo=UTC)),
        (timedelta.min, datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_a_shifted_time_stays_within_the_calendar(by: timedelta, expected: datetime) -> None:
    assert shifted(NOW, by) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-05T12:00:00Z", NOW),
        ("2026-01-05T14:00:00+02:00", NOW),
        # Some writers of tables give no zone; none is UTC, wherever this runs.
        ("2026-01-05T12:00:00", NOW),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("1582-10-10T00:00:00Z", datetime(1582, 10, 10, tzinfo=UTC)),
    ],
)
def test_a_time_is_in_utc_whatever_the_zone_of_the_process(
    text: str, expected: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert in_utc(text) == in_utc(datetime.fromisoformat(text)) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:00:00-05:00", "yesterday"])
def test_a_time_that_no_calendar_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"outside of the years 1 to 9999|Invalid isoformat"):
        in_utc(text)


@pytest.mark.parametrize("moment", [NOW, FIRST_MOMENT, LAST_MOMENT, datetime(1582, 10, 10, 0, 0, 0, 1, tzinfo=UTC)])
def test_microseconds_are_exact(moment: datetime) -> None:
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds(moment)) == moment
