"""Replays of the model: selection and sending."""

from datetime import datetime

from support.histories.lifecycle import has_expired
from support.histories.state import Job, Message, Store, Writes
from support.histories.steps import Replay

ROUND = 3
"""The maximum number of messages that one round sends."""


def replay(store: Store, job: Job, what: Replay) -> Writes:
    """A replay sends what it selected when it began."""
    if job.sends is None:
        chosen = _chosen(store, what)
        yield "replay-frozen"
        job.sends = chosen
        store.seen[f"to {what.to}"] += len(chosen)
        store.seen["in order of sequences"] += what.order == "Sequence" and any(m.sequence_number for m in chosen)


def _chosen(store: Store, what: Replay) -> list[Message]:
    rows = [
        message
        for message in store.by_position()
        if (what.stream is None or message.stream_name == what.stream)
        and (what.status is None or message.status == what.status)
    ]
    if what.order == "Sequence":
        rows.sort(key=lambda message: (message.sequence_number is None, message.sequence_number or 0))
    return rows[: what.limit]


def redeliver(store: Store, now: datetime) -> Writes:
    """Mark due messages as being retried; a round sends those that one commit marked."""
    due = [message for message in store.by_position() if _is_due(store, message, now)][:ROUND]
    if due:
        yield "lifecycle"
        for one in due:
            message = store.find(one.message_id)
            assert message is not None
            for row in (one, message):
                row.status, row.next_retry_at, row.updated_at = "PROCESSING", None, now
        store.rounds.append(due)
        store.seen["sent again"] += len(due)


def _is_due(store: Store, message: Message, now: datetime) -> bool:
    if message.next_retry_at is None or message.next_retry_at > now or has_expired(message, now):
        return False
    return message.correlation_id is None or message.global_position == min(
        other.global_position
        for other in store.messages
        if other.correlation_id == message.correlation_id
        and (other.next_retry_at is not None or (other.status == "PROCESSING" and other.retries))
    )
