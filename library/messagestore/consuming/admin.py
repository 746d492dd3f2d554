"""Look at the consumers of a store, move their cursors, and remove their state."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from messagestore.consuming.cursors import NAME, CursorStore, cursors_in
from messagestore.consuming.source import Source, Start
from messagestore.consuming.state import State
from messagestore.errors import ConsumerStateError
from messagestore.location import Location, refusals
from messagestore_core.clock import rfc3339
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.consumers import Group, Slot
from messagestore_core.store.layout import CONSUMERS


@dataclass(frozen=True)
class Consumption:
    """How far the consumers of a name are.

    Attributes:
        name: theirs.
        slots: how many there are.
        global_position: the smallest cursor of the slots.
        behind: how many positions of the store lie behind it, whoever's messages they are.
        consumers: how many have slots, or wait for some.
        leased_until: the end of the last lease; None: nobody has one.
    """

    name: str
    slots: int
    global_position: int
    behind: int
    consumers: int
    leased_until: datetime | None


def consumptions(
    uri: str, state: str | None = None, storage: Sequence[StorageEntry] | None = None
) -> list[Consumption]:
    """The consumers of a store, by name.

    Args:
        state: the folder of their cursors; absent: that in the store.
    """
    with _source(uri, storage) as source:
        head, own = source.head(), source.store_id
        each = [
            _consumption(name, cursors_in(source.location.uri, name, state, storage), own, head)
            for name in _names(uri, state, storage)
        ]
    return [one for one in each if one is not None]


def reset(
    uri: str,
    name: str,
    to: Start,
    state: CursorStore | str | None = None,
    storage: Sequence[StorageEntry] | None = None,
) -> Group:
    """Have the consumers of a name go on elsewhere.

    Args:
        to: at the first message, behind the last one, or at a global position.
        state: as for a ``Consumer``.

    Raises:
        ArgumentError: ``to`` is none of these.
        ConsumerStateError: there are no such consumers, or one of them has a lease.
    """
    with _source(uri, storage) as source, _state(source, name, state, storage) as kept:
        group = _idle(kept, name)
        return kept.begin(group.slots, source.before(to))


def delete(
    uri: str, name: str, state: CursorStore | str | None = None, storage: Sequence[StorageEntry] | None = None
) -> None:
    """Remove the state of the consumers of a name; the next one begins where its ``start`` says.

    Raises:
        ConsumerStateError: there are no such consumers, or one of them has a lease.
    """
    with _source(uri, storage) as source, _state(source, name, state, storage) as kept:
        _idle(kept, name)
        kept.delete()


def _source(uri: str, storage: Sequence[StorageEntry] | None) -> closing[Source]:
    return closing(Source(uri, None, None, storage, None))


def _state(
    source: Source, name: str, state: CursorStore | str | None, storage: Sequence[StorageEntry] | None
) -> closing[State]:
    return closing(State(cursors_in(source.location.uri, name, state, storage), name, source.store_id))


def _names(uri: str, state: str | None, storage: Sequence[StorageEntry] | None) -> list[str]:
    folder, below = (uri, (CONSUMERS,)) if state is None else (state, ())
    with closing(Location(folder, storage)) as location, refusals(location.uri):
        folders = [name.rstrip("/") for name in location.objects(*below).names() if name.endswith("/")]
        # Others are of nobody who consumes, such as lost+found.
        return [name for name in folders if NAME.fullmatch(name)]


def _consumption(name: str, cursors: CursorStore, store: str, head: int) -> Consumption | None:
    """How far a name is; None if its folder has nothing for this store."""
    with closing(State(cursors, name, store)) as kept:
        group = kept.group()
        if group is None:
            return None
        slots = _slots(kept, group)
        position, leases = min(slot.global_position for slot in slots), _leases(kept, slots)
    return Consumption(
        name, group.slots, position, max(0, head - position), len(leases), max(leases.values(), default=None)
    )


def _slots(kept: State, group: Group) -> list[Slot]:
    return [kept_slot.slot for kept_slot in kept.slots(group, range(group.slots)).values()]


def _leases(kept: State, slots: Sequence[Slot]) -> dict[str, datetime]:
    """Who has a lease, or waits for one, and until when."""
    now = datetime.now(UTC)
    until = {**kept.members()}
    for slot in slots:
        if slot.owner is not None and slot.until is not None:
            until[slot.owner] = max(slot.until, until.get(slot.owner, slot.until))
    return {owner: end for owner, end in until.items() if end > now}


def _idle(kept: State, name: str) -> Group:
    """What the consumers of a name have agreed on, while none of them has a lease."""
    group = kept.group()
    if group is None:
        raise ConsumerStateError(f"there is no state of a consumer {name} of this store")
    leases = _leases(kept, _slots(kept, group))
    if leases:
        until = rfc3339(max(leases.values()))
        raise ConsumerStateError(
            f"{len(leases)} of consumer {name} are running, or died and have leases until {until}: stop them, or wait"
        )
    return group
