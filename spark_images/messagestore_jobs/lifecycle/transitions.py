"""The effects of status updates on messages: of one update, and of all in a batch. No Spark, no I/O, no clock.

RECEIVED → PROCESSING → COMPLETED or FAILED; FAILED → PROCESSING while retries are left; each status that is not
terminal → EXPIRED after ``expires_at``. Steps may be skipped, not taken back. An update that changes nothing is stale.

Attempts count from 1: a message that has failed n times is in attempt n + 1, or waits for it. An update with an attempt
is stale once that attempt has failed, and implies that all attempts before it failed. So each failure counts once,
however often and in whatever order it is reported.

RETRY, PAUSE and RESUME are updates and no statuses, for messages that have failed. RETRY makes one due at its time, and
gives it one more try if no retry is left; PAUSE makes one that is to be retried wait, until RESUME makes it due.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from messagestore_core.bounds import LAST_MOMENT
from messagestore_core.clock import shifted
from messagestore_core.contract.ingest import Retry

STATUSES = ("RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "EXPIRED")
ENDED = ("COMPLETED", "EXPIRED")
ACTS = ("RETRY", "PAUSE", "RESUME")
UPDATES = (*STATUSES, *ACTS)
PAUSED = LAST_MOMENT
"""When a paused message is due again."""


@dataclass(frozen=True, slots=True)
class LifecycleState:
    """The lifecycle state of a message.

    Attributes:
        status: one of STATUSES.
        retries: failures so far.
        next_retry_at: when a failed message is due again; None if no retry is left, or it has not failed.
        expires_at: when it expires; None: never.
    """

    status: str
    retries: int = 0
    next_retry_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def terminal(self) -> bool:
        """Whether no update but RETRY changes it."""
        return self.status in ENDED or (self.status == "FAILED" and self.next_retry_at is None)

    def expired(self, moment: datetime) -> bool:
        """Whether ``expires_at`` is not after a moment."""
        return self.expires_at is not None and self.expires_at <= moment


@dataclass(frozen=True, slots=True)
class Update:
    """One of UPDATES, its time (None: when it is applied), and its attempt (None: the current one).

    The time of RETRY may be one to come.
    """

    status: str
    time: datetime | None = None
    attempt: int | None = None


def after(state: LifecycleState, update: Update, retry: Retry, now: datetime) -> LifecycleState | None:
    """The state after an update that is applied at ``now``; None if the update is stale."""
    if update.status in ACTS:
        takes = state.status == "FAILED" and not state.expired(now) and update.attempt in (None, state.retries)
        again = _due(state, update, now) if takes else None
        return None if again is None else replace(state, next_retry_at=again)
    if state.terminal:
        return None
    moment = min(update.time or now, now)
    if update.status == "EXPIRED" or state.expired(moment):
        due = update.status == "EXPIRED" and state.expired(moment)
        return expire(state) if due else None
    failures = state.retries if update.attempt is None else update.attempt - 1
    unseen = failures > state.retries
    if failures < state.retries or (unseen and failures > retry.max_retries):
        return None
    repeated = update.status == state.status and not unseen and (update.attempt is None or state.status != "FAILED")
    if update.status == "RECEIVED" or repeated:
        return None
    if update.status == "FAILED":
        again = next_retry_at(retry, failures + 1, now)
        return replace(state, status="FAILED", retries=failures + 1, next_retry_at=again)
    return replace(state, status=update.status, retries=failures, next_retry_at=None)


def expire(state: LifecycleState) -> LifecycleState:
    """The state of a message after it expired."""
    return replace(state, status="EXPIRED", next_retry_at=None)


def next_retry_at(retry: Retry, failures: int, now: datetime) -> datetime | None:
    """When the next try is due after so many failures; None if no retry is left."""
    return None if failures > retry.max_retries else shifted(now, wait(retry, failures))


def wait(retry: Retry, failures: int) -> timedelta:
    """How long the retry after the n-th failure waits: base^n whole minutes, at most the maximum.

    Camunda's bpm-correlate computes it the same way.
    """
    try:
        minutes = int(float(retry.backoff_base) ** failures)
        return min(timedelta(minutes=minutes), retry.max_backoff)
    except OverflowError:
        return retry.max_backoff


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in the store that has updates."""

    message_id: str
    global_position: int
    inserted_date: date
    state: LifecycleState


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one message.

    Attributes:
        message: before the updates.
        state: after all of its updates.
        outcome: the row of the update with the new result and error; None: they stay.
    """

    message: StoredMessage
    state: LifecycleState
    outcome: int | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """An update that was applied to a message; with an outcome its result and error are the message's."""

    message: StoredMessage
    before: LifecycleState
    after: LifecycleState
    row: int
    has_outcome: bool


@dataclass(frozen=True)
class Folded:
    """A batch's updates: each is applied, stale, or of an ``unknown`` id (rows)."""

    changes: dict[str, Change]
    steps: tuple[Applied, ...]
    stale: int
    unknown: tuple[int, ...]
    acts: Mapping[str, int] = field(default_factory=dict)
    """Of those applied: how many by each of ACTS."""

    @property
    def applied(self) -> int:
        """How many were applied."""
        return len(self.steps)

    @property
    def retried(self) -> int:
        """How many made a message due."""
        return self.acts.get("RETRY", 0)

    @property
    def exhausted(self) -> tuple[StoredMessage, ...]:
        """The messages that failed and have no retry left."""
        ended = (change for change in self.changes.values() if change.state.status == "FAILED")
        return tuple(change.message for change in ended if change.state.terminal)


def fold(
    updates: Iterable[tuple[str, Update]], messages: Mapping[str, StoredMessage], retry: Retry, now: datetime
) -> Folded:
    """Apply updates in order of arrival; their rows count from 0."""
    changes: dict[str, Change] = {}
    unknown: list[int] = []
    applied: list[Applied] = []
    stale = 0
    acts: Counter[str] = Counter()
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
        has_outcome = update.status in ("COMPLETED", "FAILED")
        applied.append(Applied(message, change.state, state, row, has_outcome))
        if update.status in ACTS:
            acts[update.status] += 1
        changes[message_id] = replace(change, state=state, outcome=row if has_outcome else change.outcome)
    return Folded(changes, tuple(applied), stale, tuple(unknown), acts)


def _due(state: LifecycleState, update: Update, now: datetime) -> datetime | None:
    """When a message that has failed is due after one of ACTS; None if that changes nothing."""
    before = state.next_retry_at
    match update.status:
        case "RETRY":
            due = max(update.time or now, now)
            return None if before is not None and due == max(before, now) else due
        case "RESUME":
            return now if before == PAUSED else None
        case _:
            return None if before in (None, PAUSED) else PAUSED
