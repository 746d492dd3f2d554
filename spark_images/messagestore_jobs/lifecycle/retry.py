"""When a message that failed is due again: the arithmetic of camunda's bpm-correlate."""

from datetime import datetime, timedelta

from messagestore_jobs.contract.run_document import Retry


def next_retry_at(retry: Retry, failures: int, now: datetime) -> datetime | None:
    """When the next try is due after so many failures; None where none is left."""
    return None if failures > retry.max_retries else now + wait(retry, failures)


def wait(retry: Retry, failures: int) -> timedelta:
    """How long the retry after the n-th failure waits: base^n whole minutes, and never longer than the maximum."""
    try:
        minutes = int(float(retry.backoff_base) ** failures)
        return min(timedelta(minutes=minutes), retry.max_backoff)
    except OverflowError:
        return retry.max_backoff
