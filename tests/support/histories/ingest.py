"""An ingest run of the model."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from support.histories.lifecycle import expire, settle, take_in_updates, update_batch_anew, withdraw
from support.histories.state import Batch, File, Letter, Message, Place, RedriveJob, Store, Writes
from support.histories.steps import Record, Spec, Told, words


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
    records = (one for file in store.batch.files for one in file.places("files"))
    outcome = _judge(store, store.batch, records)
    gone = store.gone_letters(store.batch)
    outcome.counts += Counter(received=gone, dead_lettered=gone)
    yield from store.set_aside(outcome.letters)
    yield "messages"
    _commit(store, outcome)
    store.batch = None


def _commit(store: Store, outcome: _Outcome) -> None:
    store.messages += outcome.stored
    store.next_global += len(outcome.stored)
    for message in outcome.stored:
        store.heads[message.stream_name] = message.position + 1
    store.totals += outcome.counts
    store.seen += outcome.counts


def _judge(store: Store, batch: Batch, records: Iterable[tuple[Place, Record | Told]]) -> _Outcome:
    outcome = _Outcome()
    for place, record in records:
        assert isinstance(record, Record)
        outcome.counts["received"] += 1
        outcome.counts[_placed(store, batch, outcome, place, record)] += 1
    return outcome


def redrive(store: Store, job: RedriveJob, now: datetime, spec: Spec, record_at: Callable[[Place], Record]) -> Writes:
    """Take in the records of all open dead letters, as they came; then settle and expire, as after any batch.

    ``record_at`` finds the record of a place.
    """
    if job.letters is None:
        chosen = open_letters(store)
        yield "replay-frozen"
        job.letters = chosen
        store.seen["redriven again"] += sum(store.letters[place].tries > 1 for place in chosen)
    if not job.letters:
        return
    if store.settling:
        yield from settle(store, now)
    if not job.stored:
        yield from _take_in_again(store, job, now, spec, record_at)
    yield from settle(store, now)
    yield from expire(store, now)


def open_letters(store: Store) -> list[Place]:
    """The places of messages' dead letters that no redrive took out, in order of failure."""
    places = [place for place, one in store.letters.items() if place.kind == "files" and one.redriven is None]
    return sorted(places, key=lambda place: (store.letters[place].at, place.file, place.offset))


def to_be_redriven(store: Store, job: RedriveJob) -> list[Place]:
    """The places of the dead letters that a redrive sends: all but those of erased messages."""
    gone = words(store.erased)
    return [place for place in job.letters or [] if not gone.search(store.letters[place].raw)]


def _take_in_again(
    store: Store, job: RedriveJob, now: datetime, spec: Spec, record_at: Callable[[Place], Record]
) -> Writes:
    sent = to_be_redriven(store, job)
    if not sent:
        return
    if job.batch is None:
        yield "plan"
        job.batch = Batch(job.own, now, (), spec, redrives=True)
    outcome = _judge(store, job.batch, [(place, record_at(place)) for place in sent])
    if outcome.letters:
        yield "dead-letters"
        store.letters |= {place: _again(store.letters[place], letter) for place, letter in outcome.letters.items()}
    yield "messages"
    _commit(store, outcome)
    job.stored = True


def _again(before: Letter, letter: Letter) -> Letter:
    """A dead letter that failed again; a batch that is repeated counts as one try."""
    if before.batch == letter.batch:
        return letter._replace(tries=before.tries, earlier=before.earlier)
    return letter._replace(tries=before.tries + 1, earlier=(*before.earlier, (before.reason, before.batch)))


def _placed(store: Store, batch: Batch, outcome: _Outcome, place: Place, record: Record) -> str:
    """Classify one record; returns the name of its count."""
    before = None if batch.redrives else store.letters.get(place)
    earlier = before if before and before.batch != batch.name else None

    def aside(reason: str) -> str:
        outcome.letters[place] = Letter(reason, record.line(), batch.name, batch.at)
        return "duplicates" if earlier else "dead_lettered"

    if reason := _unfit(record, batch.spec):
        return aside(reason)
    if record.stream == "b" and batch.spec == "drops b":
        return "filtered"
    if before and not earlier:
        # An earlier try of the batch made it a dead letter.
        return "dead_lettered"
    known = store.erased | {message.message_id for message in (*store.messages, *outcome.stored)}
    if record.message_id in known or (not batch.redrives and _is_purged(store, record, batch.at)):
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
