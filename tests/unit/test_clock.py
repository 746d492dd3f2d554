"""Times that are computed with lengths of any size."""

from datetime import UTC, datetime, timedelta

import pytest

from messagestore_core.clock import shifted

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
