"""What a batch of updates comes to, message by message. No Spark, no I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from messagestore_jobs.contract.run_document import Retry
from messagestore_jobs.lifecycle.transitions import RETRY, State, Update, after


@dataclass(frozen=True, slots=True)
class Message:
    """A message that updates are for, as the store has it."""

    global_position: int
    inserted_date: date
    state: State


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a message.

    Attributes:
        message: as it was.
        state: after all of its updates.
        outcome: the row of the update whose result and error stand from now on; None: they stay.
    """

    message: Message
    state: State
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
    def exhausted(self) -> tuple[Message, ...]:
        """The messages that failed and have no retry left."""
        ended = (change for change in self.changes.values() if change.state.status == "FAILED")
        return tuple(change.message for change in ended if change.state.terminal)


def fold(updates: Iterable[tuple[str, Update]], messages: Mapping[str, Message], retry: Retry, now: datetime) -> Folded:
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
