"""Events of a stream, when counts in its status grow."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import LifecycleStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.reasons import Reason


def dead_letters_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """An Event when records became dead letters."""
    known = before.totals.dead_lettered if before.totals else 0
    now = after.totals.dead_lettered if after.totals else 0
    if now > known:
        why = ", ".join(_grown_reasons(before, after))
        counted = f": {why}; status.table.deadLettersByReason" if why else "; status.totals.deadLettered"
        words = f"records were set aside as dead letters{counted} counts them"
        yield EmitEvent("Warning", Reason.DEAD_LETTERS, words)


def _grown_reasons(before: MessageStreamStatus, after: MessageStreamStatus) -> list[str]:
    """The reasons with more dead letters than before, by name; none if it is not known how many there were."""
    if after.table is None or (before.table and before.table.dead_letters and not before.table.dead_letters_by_reason):
        return []
    known = {one.reason: one.count for one in before.table.dead_letters_by_reason} if before.table else {}
    return sorted(one.reason for one in after.table.dead_letters_by_reason if one.count > known.get(one.reason, 0))


def loss_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """An Event when records were lost before they were read."""
    known = before.loss.records or 0 if before.loss else 0
    if after.loss is not None and (after.loss.records or 0) > known:
        words = f"records of topic {after.loss.topic} were lost before they were read; status.loss has their offsets"
        yield EmitEvent("Warning", Reason.RECORDS_LOST, words)


def sequences_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """An Event when sequences are incomplete after their timeout."""
    known = before.sequences.overdue if before.sequences else 0
    if after.sequences is not None and after.sequences.overdue > known:
        words = "message sequences are incomplete after spec.sequences.timeout; status.sequences.overdue counts them"
        yield EmitEvent("Warning", Reason.SEQUENCES_OVERDUE, words)


def lifecycle_events(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """Events when status updates became dead letters, and when messages have no retry left."""
    if after.lifecycle is None:
        return
    known, now = before.lifecycle or LifecycleStatus(), after.lifecycle
    if now.dead_lettered > known.dead_lettered:
        words = "status updates were set aside as dead letters; status.lifecycle.deadLettered counts them"
        yield EmitEvent("Warning", Reason.DEAD_LETTERS, words)
    if now.exhausted > known.exhausted:
        words = "messages failed and have no retry left; status.lifecycle.exhausted counts them"
        yield EmitEvent("Warning", Reason.RETRIES_EXHAUSTED, words)
