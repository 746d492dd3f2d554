"""A purge run of the model."""

from collections import Counter
from datetime import datetime

from support.histories.state import Message, Plan, Store, Writes
from support.histories.steps import HOUR, Purge, scrubbed, words


def purge(store: Store, run: str, what: Purge, now: datetime) -> Writes:
    """Continue an interrupted purge, then decide and carry out a new one."""
    before = store.plan
    if before is not None:
        store.seen["purge went on"] += 1
        yield from _recheck(store, before, what)
        yield from _carry_out(store, before)
        if before.run == run:
            return
    going = [m for m in store.messages if _selected(m, what, now) and not _held(m, what)]
    if not going:
        return
    yield "freeze-plan"
    store.plan = Plan(run, what, now, {m.global_position: m.status for m in going})
    yield from _carry_out(store, store.plan)


def _selected(message: Message, what: Purge, now: datetime) -> bool:
    return (
        (what.older is None or message.inserted_at < now - what.older * HOUR)
        and (what.stream is None or message.stream_name == what.stream)
        and (what.status is None or message.status == what.status)
        and (what.erased is None or message.message_id == f"m{what.erased}")
        and not (what.scrubs and message.scrubbed_at)
    )


def _held(message: Message, what: Purge) -> bool:
    return message.message_id in {f"m{number}" for number in what.held}


def _recheck(store: Store, plan: Plan, by: Purge) -> Writes:
    """Keep messages that a hold covers now or whose status has changed, unless they were scrubbed already."""
    staying = {
        m.global_position: m.message_id
        for m in store.messages
        if m.global_position in plan.rows
        and (_held(m, by) or m.status != plan.rows[m.global_position])
        and not (plan.what.scrubs and m.scrubbed_at)
    }
    if not staying:
        return
    if withdrawn := store.erased & set(staying.values()):
        yield "tombstones-withdrawn"
        store.erased -= withdrawn
        store.seen["not erased after all"] += 1
    yield "freeze-plan"
    store.seen["stays after all"] += 1
    plan.rows = {position: status for position, status in plan.rows.items() if position not in staying}


def _carry_out(store: Store, plan: Plan) -> Writes:
    if plan.rows and plan.what.erased is not None:
        yield from _remember_erased(store, plan)
    if plan.rows and plan.what.scrubs:
        yield from _scrub(store, plan)
    elif plan.rows:
        yield from _remember_purged(store, plan)
        yield from _delete(store, plan)
    yield "forget-plan"
    if plan.what.erased is None:
        store.archived += plan.rows
    kind = "erased" if plan.what.erased is not None else "scrubbed" if plan.what.scrubs else "purged"
    store.seen[kind] += len(plan.rows)
    store.plan = None


def _rows(store: Store, plan: Plan) -> list[Message]:
    return [message for message in store.messages if message.global_position in plan.rows]


def _remember_erased(store: Store, plan: Plan) -> Writes:
    """Write tombstones, and remove other copies of erased messages."""
    ids = {message.message_id for message in _rows(store, plan)}
    if not ids <= store.erased:
        yield "tombstones"
        store.erased |= ids
        store.waiting = [one for one in store.waiting if one.told.message_id not in ids]
    yield from _forget_copies(store, ids)


def erase(store: Store) -> Writes:
    """Remove what came after the erasures; all else that an erasing run removes is of the past."""
    yield from _forget_copies(store, store.erased)


def _forget_copies(store: Store, ids: set[str]) -> Writes:
    """Remove dead letters of erased messages."""
    copies = [place for place, letter in store.letters.items() if words(ids).search(letter.raw)]
    exhausted = [one for one in store.exhausted if one.message.message_id in ids]
    if copies or exhausted:
        yield "erase-dead-letters"
        store.exhausted = [one for one in store.exhausted if one not in exhausted]
        for place in copies:
            letter = store.letters.pop(place)
            store.erased_letters += 0 if store.is_open(letter.batch) else letter.tries


def _remember_purged(store: Store, plan: Plan) -> Writes:
    """Remember the ids, once; the plan says that they are."""
    if store.remember_purged is None or plan.what.erased is not None or plan.remembered:
        return
    ids = [message.message_id for message in _rows(store, plan)]
    yield "purged-ids"
    store.purged |= dict.fromkeys(ids, plan.at)
    yield "freeze-plan"
    plan.remembered = True


def _delete(store: Store, plan: Plan) -> Writes:
    """Delete whole days in one write, the rest in another."""
    days = Counter(message.inserted_at.date() for message in store.messages)
    leaving = Counter(message.inserted_at.date() for message in _rows(store, plan))
    whole = {day for day, rows in leaving.items() if rows == days[day]}
    for name, chosen in (("delete-days", whole), ("delete-rows", set(leaving) - whole)):
        if chosen:
            yield name
            gone = [m.global_position for m in _rows(store, plan) if m.inserted_at.date() in chosen]
            store.messages = [m for m in store.messages if m.global_position not in gone]


def _scrub(store: Store, plan: Plan) -> Writes:
    yield "scrub-rows"
    for message in _rows(store, plan):
        if message.scrubbed_at is None:
            message.scrubbed_at, message.payload = plan.at, scrubbed(message.payload)
            message.headers = dict.fromkeys(message.headers, "[redacted]")
