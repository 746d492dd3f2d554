"""The retry arithmetic.

The cases are computed by the formula in camunda-bpm-correlate 2025.05.1, RetryingSingleMessageErrorHandlingStrategy
(nextRetry = now + min((base ^ retries) as a long, maximum) minutes) and its defaults, base 2.0 and 180 minutes.
"""

from datetime import UTC, datetime, timedelta

import pytest

from messagestore_core.contract.ingest import Retry
from messagestore_jobs.lifecycle.transitions import next_retry_at, wait

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("base", "most", "minutes"),
    [
        (2.0, 180, [2, 4, 8, 16, 32, 64, 128, 180, 180, 180]),
        (1.0, 180, [1, 1, 1, 1]),
        (1.5, 180, [1, 2, 3, 5, 7, 11, 17, 25, 38, 57, 86, 129, 180]),
        (3.0, 10, [3, 9, 10, 10]),
        (60.0, 180, [60, 180, 180]),
        (0.5, 180, [0, 0]),
    ],
)
def test_the_wait_after_the_nth_failure(base: float, most: int, minutes: list[int]) -> None:
    retry = Retry(backoff_base=base, max_backoff=most * MINUTE)
    assert [wait(retry, n) for n in range(1, len(minutes) + 1)] == [n * MINUTE for n in minutes]


def test_no_number_is_too_large() -> None:
    retry = Retry(backoff_base=60, max_backoff=timedelta(days=1))
    assert wait(retry, 10_000) == timedelta(days=1)


def test_a_retry_is_left_while_there_were_no_more_failures_than_the_maximum() -> None:
    retry = Retry(max_retries=5)
    assert [next_retry_at(retry, n, NOW) is None for n in range(1, 8)] == [False] * 5 + [True] * 2
    assert next_retry_at(retry, 5, NOW) == NOW + 32 * MINUTE


def test_without_retries_the_first_failure_is_the_last() -> None:
    assert next_retry_at(Retry(max_retries=0), 1, NOW) is None
