"""An ingest run of the model."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from support.histories.lifecycle import expire, settle, take_in_updates, update_batch_anew, withdraw
from support.histories.state import Batch, File, Letter, Message, Place, Store, Writes
from support.histories.steps import Record, Spec


def ingest(store: Store, now: datetime, files_in_a_batch: int, spec: Spec) -> Writes:
    """Interrupted work first, then messages, then updates, then expiry."""
    yield from update_batch_anew(store, spec)
    yield from take_in_updates(store)
    if store.settling:
        yield from settle(store, now)
    yield from _batch_anew(store, spec)
    yield from _take_in(store)
    while store.unread:
        yield "plan"
        store.batch, store.unread = plan(store, "landing", now, store.unread, files_in_a_batch, spec)
        yield from _take_in(store)
    yield from settle(store, now)
    while store.unread_updates:
        yield "plan"
        store.update_batch, store.unread_updates = plan(store, "updates", now, store.unread_updates, 2, spec)
        yield from take_in_updates(store)
    yield from expire(store, now)


def plan(
    store: Store, source: str, now: datetime, unread: list[File], files: int, spec: Spec
) -> tuple[Batch, list[File]]:
    """The next batch, and the files left."""
    store.batches[source] += 1
    return Batch(f"{source}/{store.batches[source]}", now, tuple(unread[:files]), spec), unread[files:]


@dataclass
class _Outcome:
    """The outcome of a batch."""

    stored: list[Message] = field(default_factory=list)
    letters: dict[Place, Letter] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def _batch_anew(store: Store, spec: Spec) -> Writes:
    """Judge a planned batch by another spec; what was set aside of files that are there is withdrawn."""
    batch = store.batch
    if batch is None or batch.spec == spec:
        return
    yield from _without_gone(store)
    batch = batch._replace(lacks=False)
    yield from withdraw(store, store.own_letters(batch), [])
    yield "plan-anew"
    store.batch = store.batch and batch._replace(spec=spec)
    store.seen["judged anew"] += 1


def _without_gone(store: Store) -> Writes:
    """Note that files of a planned batch are gone; without any, only the dead letters of an earlier try are left."""
    batch = store.batch
    if batch is None or not batch.lacks:
        return
    yield "take-out"
    store.batch = batch._replace(lacks=False) if batch.files or store.gone_letters(batch) else None


def _take_in(store: Store) -> Writes:
    yield from _without_gone(store)
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

    if reason := _unfit(record, batch.spec):
        return aside(reason)
    if record.stream == "b" and batch.spec == "drops b":
        return "filtered"
    if before and not earlier:
        # An earlier try of the batch made it a dead letter.
        return "dead_lettered"
    known = store.erased | {message.message_id for message in (*store.messages, *outcome.stored)}
    if record.message_id in known or _is_purged(store, record, batch.at):
        return "duplicates"
    if earlier and earlier.reason == "WrongExpectedVersion":
        return "duplicates"
    is_late = record.expires_at is not None and record.expires_at <= batch.at
    if is_late and batch.spec != "stores expired":
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
            status="EXPIRED" if is_late else "RECEIVED",
        )
    )
    return "stored"


def _unfit(record: Record, spec: Spec) -> str | None:
    """Why a record is set aside, whatever the store has."""
    if record.garbage:
        return "Unparseable"
    if spec == "asks for groups" and record.group is None:
        return "MissingField"
    if record.told_size and record.place > record.told_size:
        return "InvalidField"
    return "Unselected" if spec == "sets b aside" and record.stream == "b" else None


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
