"""What status updates do to a message: one update, and all of a batch. No Spark, no I/O, no clock.

RECEIVED → PROCESSING → COMPLETED or FAILED; FAILED → PROCESSING while retries are left; what is not terminal → EXPIRED
once its time has passed. A step may be jumped over, never taken back. What changes nothing by these rules is stale.

Attempts are counted from 1: a message that has failed n times is in attempt n + 1, or waits for it. An update that
names its attempt is stale once that attempt has failed, and one of a later attempt tells that those before it failed;
so however often a failure is told, and in whatever order, it counts once.

One update is no status: RETRY gives a message that is out of retries one more try, at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from messagestore_core.contract.run_document import Retry

STATUSES = ("RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED")
ENDED = ("COMPLETED", "EXPIRED")
RETRY = "RETRY"
UPDATES = (*STATUSES, RETRY)


@dataclass(frozen=True, slots=True)
class LifecycleState:
    """Where a message is.

    Attributes:
        status: one of STATUSES.
        retries: failures so far.
        next_retry_at: when a failed message is due again; None where no retry is left, or it has not failed.
        expires_at: when it expires; None: never.
    """

    status: str
    retries: int = 0
    next_retry_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def terminal(self) -> bool:
        """Whether nothing changes it any more."""
        return self.status in ENDED or (self.status == "FAILED" and self.next_retry_at is None)

    def expired(self, moment: datetime) -> bool:
        """Whether its time had passed by then, if it was still open."""
        return self.expires_at is not None and self.expires_at <= moment


@dataclass(frozen=True, slots=True)
class Update:
    """What an update says: one of UPDATES, when it came to be so (None: when it is taken in), and of which attempt."""

    status: str
    time: datetime | None = None
    attempt: int | None = None


def after(state: LifecycleState, update: Update, retry: Retry, now: datetime) -> LifecycleState | None:
    """The message's state after an update that is taken in at ``now``; None where the update is stale."""
    if update.status == RETRY:
        return _again(state, update, now)
    if state.terminal:
        return None
    moment = min(update.time or now, now)
    if update.status == "EXPIRED" or state.expired(moment):
        due = update.status == "EXPIRED" and state.expired(moment)
        return expire(state) if due else None
    failures = state.retries if update.attempt is None else update.attempt - 1
    untold = failures > state.retries
    if failures < state.retries or (untold and failures > retry.max_retries):
        return None
    repeated = update.status == state.status and not untold and (update.attempt is None or state.status != "FAILED")
    if update.status == "RECEIVED" or repeated:
        return None
    if update.status == "FAILED":
        again = next_retry_at(retry, failures + 1, now)
        return replace(state, status="FAILED", retries=failures + 1, next_retry_at=again)
    return replace(state, status=update.status, retries=failures, next_retry_at=None)


def expire(state: LifecycleState) -> LifecycleState:
    """The state of a message whose time has passed."""
    return replace(state, status="EXPIRED", next_retry_at=None)


def next_retry_at(retry: Retry, failures: int, now: datetime) -> datetime | None:
    """When the next try is due after so many failures; None where none is left."""
    return None if failures > retry.max_retries else now + wait(retry, failures)


def wait(retry: Retry, failures: int) -> timedelta:
    """How long the retry after the n-th failure waits: base^n whole minutes, and never longer than the maximum.

    It is the arithmetic of camunda's bpm-correlate.
    """
    try:
        minutes = int(float(retry.backoff_base) ** failures)
        return min(timedelta(minutes=minutes), retry.max_backoff)
    except OverflowError:
        return retry.max_backoff


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that updates are for, as the store has it."""

    global_position: int
    inserted_date: date
    state: LifecycleState


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a message.

    Attributes:
        message: as it was.
        state: after all of its updates.
        outcome: the row of the update whose result and error stand from now on; None: they stay.
    """

    message: StoredMessage
    state: LifecycleState
    outcome: int | None = None


@dataclass(frozen=True)
class Folded:
    """A batch's updates, each in one place: applied, stale, or for an id that is not in the store (rows)."""

    changes: dict[str, Change]
    applied: int
    stale: int
    unknown: tuple[int, ...]
    retried: int = 0
    """Of those applied: the ones that gave a message one more try."""

    @property
    def exhausted(self) -> tuple[StoredMessage, ...]:
        """The messages that failed and have no retry left."""
        ended = (change for change in self.changes.values() if change.state.status == "FAILED")
        return tuple(change.message for change in ended if change.state.terminal)


def fold(
    updates: Iterable[tuple[str, Update]], messages: Mapping[str, StoredMessage], retry: Retry, now: datetime
) -> Folded:
    """Apply updates in order of arrival; the n-th is row n."""
    changes: dict[str, Change] = {}
    unknown: list[int] = []
    applied = stale = retried = 0
    for row, (message_id, update) in enumerate(updates):
        message = messages.get(message_id)
        if message is None:
            unknown.append(row)
            continue
        change = changes.get(message_id) or Change(message, message.state)
        state = after(change.state, update, retry, now)
        if state is None:
            stale += 1
            continue
        applied += 1
        retried += update.status == RETRY
        has_outcome = update.status in ("COMPLETED", "FAILED")
        changes[message_id] = replace(change, state=state, outcome=row if has_outcome else change.outcome)
    return Folded(changes, applied, stale, tuple(unknown), retried)


def _again(state: LifecycleState, update: Update, now: datetime) -> LifecycleState | None:
    """One more try, due at once, of what has failed for good; an attempt that is named is the one that failed last."""
    over = state.status == "FAILED" and state.terminal and not state.expired(now)
    return replace(state, next_retry_at=now) if over and update.attempt in (None, state.retries) else None
