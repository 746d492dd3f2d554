"""Status updates and expiry in the model."""

from dataclasses import replace
from datetime import datetime, timedelta

from messagestore_core.contract.ingest import Retry
from support.histories.state import Batch, Exhausted, Letter, Message, Place, Store, Waiting, Writes
from support.histories.steps import HOUR, Spec, Told

RETRY = Retry(max_retries=2, backoff_base=60, max_backoff=3 * HOUR, set_aside=True)
WAITS = timedelta(days=1)


def is_open(message: Message) -> bool:
    """Whether its status may still change."""
    return message.status in ("RECEIVED", "PROCESSING") or message.next_retry_at is not None


def has_expired(message: Message, moment: datetime) -> bool:
    return message.expires_at is not None and message.expires_at <= moment


def apply(message: Message, told: Told, now: datetime) -> bool:
    """Change a message by an update; False if the update is stale."""
    moment = min(told.time or now, now)
    under_way = message.retries + 1
    attempt = told.attempt or under_way
    if not is_open(message):
        return False
    if told.status == "EXPIRED" or has_expired(message, moment):
        if told.status != "EXPIRED" or not has_expired(message, moment):
            return False
        _become(message, "EXPIRED", message.retries, None, now)
        return True
    if told.status == "RECEIVED" or attempt < under_way:
        return False
    if attempt > under_way and attempt > RETRY.max_retries + 1:
        return False
    same = told.status == message.status and attempt == under_way
    if same and (told.status == "PROCESSING" or told.attempt is None):
        return False
    assert told.status is not None
    if told.status == "FAILED":
        _become(message, "FAILED", attempt, _due(attempt, now), now)
    else:
        _become(message, told.status, attempt - 1, None, now)
    if told.status in ("COMPLETED", "FAILED"):
        message.error = told.error
    return True


def _due(failures: int, now: datetime) -> datetime | None:
    """When a retry is due: an hour after the first failure, three after the second, never after the third."""
    return None if failures > 2 else now + (HOUR if failures == 1 else 3 * HOUR)


def _become(message: Message, status: str, retries: int, due: datetime | None, now: datetime) -> None:
    message.status, message.retries, message.next_retry_at, message.updated_at = status, retries, due, now


def update_batch_anew(store: Store, spec: Spec) -> Writes:
    """Judge a planned batch of updates by another spec; what was set aside of it is withdrawn."""
    batch = store.update_batch
    if batch is None or batch.spec == spec:
        return
    exhausted = [one for one in store.exhausted if one.batch == batch.name]
    yield from withdraw(store, store.own_letters(batch), exhausted)
    yield "plan-anew"
    store.update_batch = batch._replace(spec=spec)
    store.seen["updates judged anew"] += 1


def withdraw(store: Store, letters: list[Place], exhausted: list[Exhausted]) -> Writes:
    """Take back what was set aside, if there is anything."""
    if letters or exhausted:
        yield "dead-letters-withdrawn"
        for place in letters:
            del store.letters[place]
        store.exhausted = [one for one in store.exhausted if one not in exhausted]
        store.seen["withdrawn"] += 1


def take_in_updates(store: Store) -> Writes:
    """Apply the planned batch of updates, if there is one."""
    batch = store.update_batch
    if batch is None:
        return
    told = [one for file in batch.files for one in file.places("lifecycle")]
    yield from store.set_aside(_no_updates(batch, told))
    ended = _ended_by(store, [one for _, one in told if isinstance(one, Told)], batch.at)
    yield from _set_exhausted_aside(store, ended, batch.name)
    yield "lifecycle"
    store.updates["exhausted"] += len(ended)
    for place, one in told:
        store.updates["received"] += 1
        if one.status is None:
            store.updates["dead_lettered"] += 1
        elif one.message_id in store.erased or _is_purged(store, one, batch.at):
            _count(store, False)
        elif store.find(one.message_id) is None:
            store.waiting.append(Waiting(batch.at, place, one))
            store.seen["waits"] += 1
        else:
            _count(store, _applied(store, one, batch.at))
    store.update_batch = None


def _ended_by(store: Store, told: list[Told], at: datetime) -> list[Message]:
    """The messages that have no retry left after these updates, in their state before."""
    then = {m.message_id: replace(m) for m in store.messages if m.message_id not in store.erased}
    changed = {
        one.message_id for one in told if one.message_id in then and one.status and apply(then[one.message_id], one, at)
    }
    return [
        message
        for message in store.by_position()
        if message.message_id in changed
        and then[message.message_id].status == "FAILED"
        and not is_open(then[message.message_id])
    ]


def _set_exhausted_aside(store: Store, messages: list[Message], batch: str) -> Writes:
    """Write those that an earlier try of the batch has not written, whatever their present state."""
    before = {one.message.source: one.message for one in store.exhausted if one.batch == batch}
    new = [message for message in messages if message.source not in before]
    store.seen["set aside as it was"] += sum(before.get(message.source, message) != message for message in messages)
    if new:
        yield "dead-letters"
        store.exhausted += [Exhausted(batch, message) for message in new]
        store.seen["RetriesExhausted"] += len(new)


def _no_updates(batch: Batch, told: list[tuple[Place, object]]) -> dict[Place, Letter]:
    return {
        place: Letter("Unparseable", one.line(), batch.name, batch.at)
        for place, one in told
        if isinstance(one, Told) and one.status is None
    }


def _is_purged(store: Store, told: Told, at: datetime) -> bool:
    purged = store.find(told.message_id) is None and store.remembers(told.message_id, at)
    store.seen["told after its purge"] += purged
    return purged


def _applied(store: Store, told: Told, at: datetime) -> bool:
    message = store.find(told.message_id)
    assert message is not None
    return apply(message, told, at)


def _count(store: Store, applied: bool) -> None:
    store.updates["applied" if applied else "stale"] += 1
    store.seen["applied" if applied else "stale"] += 1


def settle(store: Store, now: datetime) -> Writes:
    """Apply waiting updates whose messages have arrived; those that waited too long become dead letters."""
    late = [one for one in store.waiting if store.find(one.told.message_id)]
    purged = [one for one in store.waiting if one not in late and _is_purged(store, one.told, now)]
    over = [one for one in store.waiting if one not in late and one not in purged and one.since + WAITS <= now]
    if not late and not over and not purged:
        return
    yield "pending-taken"
    store.settling = True
    letters = {one.place: Letter("UnknownMessage", one.told.line(), store.settled_by, now) for one in over}
    yield from store.set_aside(letters)
    ended = _ended_by(store, [one.told for one in late], now)
    yield from _set_exhausted_aside(store, ended, store.settled_by)
    yield "lifecycle"
    store.updates["exhausted"] += len(ended)
    for one in late:
        _count(store, _applied(store, one.told, now))
        store.seen["met"] += 1
    for _ in purged:
        _count(store, False)
    store.updates["dead_lettered"] += len(over)
    store.waiting = [one for one in store.waiting if one not in late and one not in purged and one not in over]
    store.batches["settled"] += 1
    store.settling = False


def expire(store: Store, now: datetime) -> Writes:
    """Expire open messages whose time has passed."""
    due = [message for message in store.messages if is_open(message) and has_expired(message, now)]
    if due:
        yield "expire"
        for message in due:
            _become(message, "EXPIRED", message.retries, None, now)
        store.updates["expired"] += len(due)
        store.seen["expired"] += len(due)
