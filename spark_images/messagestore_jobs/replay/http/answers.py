"""What an endpoint's answer means, by CloudEvents' and Knative's rules, and how long to wait before the next try."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum

from messagestore_core.contract.destinations import HttpRetries

_RETRIED = (408, 425, 429)
_STALLING = (401, 403, 404, 410)
_MOST_DOUBLINGS = 30


class Action(Enum):
    """What to do after an answer."""

    TAKEN = "taken"
    RETRY = "retry"
    SET_ASIDE = "set aside"
    """The endpoint refuses this message, and would again."""
    STALL = "stall"
    """The endpoint refuses all messages until somebody changes something."""


def action_of(status: int | None) -> Action:
    """What to do after an answer with this status; None: there was no answer, or not all of it."""
    if status is None or status in _RETRIED or status >= 500:
        return Action.RETRY
    if 200 <= status < 300:
        return Action.TAKEN
    # Redirects are not followed, and nothing else below 400 says that the message was taken.
    return Action.STALL if status in _STALLING or status < 400 else Action.SET_ASIDE


def wait_before(retry: int, retry_after: str | None, retries: HttpRetries, now: datetime) -> timedelta:
    """How long to wait before a retry.

    Args:
        retry: its number, from 1.
        retry_after: the answer's field ``Retry-After``, if it has one.
        now: the time, for an answer that names one.
    """
    doublings: int = min(retry - 1, _MOST_DOUBLINGS)
    wait = min(retries.backoff_delay * (1 << doublings), retries.backoff_max)
    return max(wait, min(_retry_after(retry_after, now), retries.retry_after_max))


def _retry_after(text: str | None, now: datetime) -> timedelta:
    """The wait that an endpoint asks for: seconds, or a time; what is neither counts as none."""
    said = (text or "").strip()
    if said.isascii() and said.isdecimal():
        return timedelta(seconds=min(int(said[:10]), 10**9))
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, TypeError):
        return timedelta()
    return max(timedelta(), (until if until.tzinfo else until.replace(tzinfo=UTC)) - now)
