"""Which files may have a message that is due to expire, by their statistics in the table's log."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from messagestore_core.store.delta_log import first_expiry

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATER = NOW + timedelta(microseconds=1)


def may(*bounds: tuple[Any, str | None]) -> bool:
    """Whether these files may; each has its earliest `expires_at` and its last status."""
    files = {"min.expires_at": [a for a, _ in bounds], "max.status": [b for _, b in bounds]}
    first = first_expiry(pa.table(files))
    return first is not None and first <= NOW


@pytest.mark.parametrize(
    ("first", "status", "due"),
    [
        (NOW, "RECEIVED", True),
        (NOW, "PROCESSING", True),
        (NOW, "FAILED", True),
        (NOW, "EXPIRED", False),
        (NOW, "COMPLETED", False),
        (LATER, "RECEIVED", False),
        (None, "RECEIVED", False),
        # Without statistics: it may.
        (NOW, None, True),
        # Formats in which some writers store times.
        ("2026-01-05T12:00:00Z", "RECEIVED", True),
        ("2026-01-05T13:00:00+02:00", "RECEIVED", True),
        ("2026-01-05T12:00:00.000001", "RECEIVED", False),
        (NOW.replace(tzinfo=None), "RECEIVED", True),
    ],
)
def test_a_file_makes_expiry_due_if_its_first_expiry_has_passed_and_a_message_may_be_open(
    first: datetime | str | None, status: str | None, due: bool
) -> None:
    assert may((first, status)) is due


def test_one_file_with_an_expired_open_message_makes_expiry_due() -> None:
    assert may((LATER, "RECEIVED"), (NOW, "EXPIRED"), (NOW, "FAILED"))
    assert not may((LATER, "RECEIVED"), (NOW, "EXPIRED"))
    assert not may()
    assert first_expiry(pa.table({})) is None
