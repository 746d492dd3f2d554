"""An ingest run of the model."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from support.histories.lifecycle import expire, settle, take_in_updates
from support.histories.state import Batch, File, Letter, Message, Place, Store, Writes
from support.histories.steps import Record


def ingest(store: Store, now: datetime, files_in_a_batch: int) -> Writes:
    """Interrupted work first, then messages, then updates, then expiry."""
    yield from take_in_updates(store)
    if store.settling:
        yield from settle(store, now)
    yield from _take_in(store)
    while store.unread:
        yield "plan"
        store.batch, store.unread = plan(store, "landing", now, store.unread, files_in_a_batch)
        yield from _take_in(store)
    yield from settle(store, now)
    while store.unread_updates:
        yield "plan"
        store.update_batch, store.unread_updates = plan(store, "updates", now, store.unread_updates, 2)
        yield from take_in_updates(store)
    yield from expire(store, now)


def plan(store: Store, source: str, now: datetime, unread: list[File], files: int) -> tuple[Batch, list[File]]:
    """The next batch, and the files left."""
    store.batches[source] += 1
    return Batch(f"{source}/{store.batches[source]}", now, tuple(unread[:files])), unread[files:]


@dataclass
class _Outcome:
    """The outcome of a batch."""

    stored: list[Message] = field(default_factory=list)
    letters: dict[Place, Letter] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def _take_in(store: Store) -> Writes:
    if store.batch is None:
        return
    outcome = _judge(store, store.batch)
    gone = store.gone_letters(store.batch)
    outcome.counts += Counter(received=gone, dead_lettered=gone)
    yield from store.set_aside(outcome.letters)
    yield "messages"
    store.messages += outcome.stored
    store.next_global += len(outcome.stored)
    for message in outcome.stored:
        store.heads[message.stream_name] = message.position + 1
    store.totals += outcome.counts
    store.seen += outcome.counts
    store.batch = None


def _judge(store: Store, batch: Batch) -> _Outcome:
    outcome = _Outcome()
    for file in batch.files:
        for place, record in file.places("files"):
            assert isinstance(record, Record)
            outcome.counts["received"] += 1
            outcome.counts[_placed(store, batch, outcome, place, record)] += 1
    return outcome


def _placed(store: Store, batch: Batch, outcome: _Outcome, place: Place, record: Record) -> str:
    """Classify one record; returns the name of its count."""
    before = store.letters.get(place)
    earlier = before if before and before.batch != batch.name else None

    def aside(reason: str) -> str:
        outcome.letters[place] = Letter(reason, record.line(), batch.name)
        return "duplicates" if earlier else "dead_lettered"

    if record.garbage:
        return aside("Unparseable")
    if record.told_size and record.place > record.told_size:
        return aside("InvalidField")
    if before and not earlier:
        # An earlier try of the batch made it a dead letter.
        return "dead_lettered"
    known = store.erased | {message.message_id for message in (*store.messages, *outcome.stored)}
    if record.message_id in known or _is_purged(store, record, batch.at):
        return "duplicates"
    if earlier and earlier.reason == "WrongExpectedVersion":
        return "duplicates"
    if record.expires_at is not None and record.expires_at <= batch.at:
        return aside("ExpiredOnArrival")
    if _contradicts(record, (*store.messages, *outcome.stored)):
        return aside("InvalidField")
    position = _next_position(store, outcome, record.stream)
    if record.expects is not None and record.expects != position - 1:
        return aside("WrongExpectedVersion")
    outcome.stored.append(
        Message(
            message_id=record.message_id,
            stream_name=record.stream,
            position=position,
            global_position=store.next_global + len(outcome.stored),
            inserted_at=batch.at,
            expires_at=record.expires_at,
            correlation_id=record.group,
            sequence_number=record.place,
            sequence_size=record.told_size,
            source=(place.file, place.offset),
            headers={"k": f"v{record.number}"},
            payload=record.payload,
        )
    )
    return "stored"


def _is_purged(store: Store, record: Record, at: datetime) -> bool:
    purged = store.remembers(record.message_id, at)
    store.seen["comes after its purge"] += purged
    return purged


def _contradicts(record: Record, stored: Iterable[Message]) -> bool:
    """Whether a stored member has another sequence size, or one's number is beyond the other's size."""
    if record.place is None:
        return False
    members = [(message.sequence_number, message.sequence_size) for message in stored if message.sequence_number]
    return any(
        (size and record.told_size and size != record.told_size)
        or (size and record.place > size)
        or (record.told_size and number > record.told_size)
        for number, size in members
    )


def _next_position(store: Store, outcome: _Outcome, stream: str) -> int:
    return store.heads.get(stream, 0) + sum(message.stream_name == stream for message in outcome.stored)
