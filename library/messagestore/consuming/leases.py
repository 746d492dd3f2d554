"""The slots that a consumer has: it takes what is free, gives back what is others', and moves their cursors.

What decides who goes on is the conditional write of a slot: an owner whose lease has ended, and whose slot was taken,
is refused at its next write. Leases only tell when a slot may be taken.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from uuid import uuid4

from messagestore.consuming.cursors import Change
from messagestore.consuming.state import KeptSlot, State
from messagestore.errors import ConsumerStateError, StorageError
from messagestore_core.store.consumers import Group, Slot

_FORGOTTEN = 10
"""After so many leases the name of a consumer that died is removed."""
_RENEWED = 2
"""A lease is renewed when half of it is over."""
LOOKS = 6
"""How often in a lease a consumer looks who is there."""


def share(slots: int, owners: Iterable[str], own: str) -> int:
    """How many slots one of some owners has, so that all are given out."""
    every = sorted({*owners, own})
    return slots // len(every) + (every.index(own) < slots % len(every))


def is_free(slot: Slot, own: str, now: datetime) -> bool:
    """Whether a slot may be taken."""
    return slot.owner is None or slot.owner == own or slot.until is None or slot.until <= now


class Leases:
    """The slots of one consumer.

    Attributes:
        held: the slots that it has, as it last wrote them.
        looks_at: when to look who is there.
        renews_at: when to renew the leases; nothing may be handled then before that.
    """

    def __init__(self, state: State, group: Group, lease: timedelta, clock: Callable[[], datetime]) -> None:
        self._state, self.group, self._lease, self._clock = state, group, lease, clock
        self.owner = uuid4().hex
        self.held: dict[int, KeptSlot] = {}
        self.looks_at = self.renews_at = clock()

    def look(self, cursors: Mapping[int, int]) -> None:
        """Move the cursors, give back what is too much, and take what is free; and renew the leases if it is time.

        Raises:
            ConsumerStateError: the state was deleted, or made anew with another number of slots.
            StorageError: it can't be read or written.
        """
        now = self._clock()
        self._follow_group()
        self._state.join(self.owner, now + self._lease)
        if now >= self.renews_at:
            self.renew(cursors)
        else:
            self.move(cursors)
        members = self._state.members()
        wanted = share(self.group.slots, (one for one, until in members.items() if until > now), self.owner)
        self._give_back(sorted(self.held)[wanted:], cursors)
        if len(self.held) < wanted:
            self._take(wanted - len(self.held))
        for owner, until in members.items():
            if until + _FORGOTTEN * self._lease < now:
                self._state.leave(owner)
        self.looks_at = now + self._lease / LOOKS

    def renew(self, cursors: Mapping[int, int]) -> None:
        """Renew all leases, and move the cursors."""
        now = self._clock()
        self._write(self._moved(self.held, cursors, self.owner, now + self._lease))
        self.renews_at = now + self._lease / _RENEWED

    def move(self, cursors: Mapping[int, int]) -> None:
        """Move the cursors of those slots whose cursor has changed."""
        behind = {number for number, kept in self.held.items() if cursors.get(number, 0) > kept.slot.global_position}
        if behind:
            self._write(self._moved(behind, cursors, self.owner, self._clock() + self._lease))

    def leave(self, cursors: Mapping[int, int]) -> None:
        """Give back all slots."""
        self._give_back([*self.held], cursors)
        self._state.leave(self.owner)

    def read_again(self) -> None:
        """Take the slots as they are kept, which a transaction of the caller's may have moved; or not."""
        for number, kept in self._state.slots(self.group, self.held).items():
            own = self.held.pop(number).slot
            if (kept.slot.owner, kept.slot.epoch) == (own.owner, own.epoch):
                self.held[number] = kept

    def moved(self, cursors: Mapping[int, int]) -> list[Change]:
        """What writes these cursors."""
        changes = self._moved(cursors, cursors, self.owner, self._clock() + self._lease)
        return [self._state.change(number, kept) for number, kept in changes.items()]

    def _moved(
        self, numbers: Collection[int], cursors: Mapping[int, int], owner: str | None, until: datetime | None
    ) -> dict[int, KeptSlot]:
        kept = {number: self.held[number] for number in numbers}
        moved = {number: cursors.get(number, one.slot.global_position) for number, one in kept.items()}
        return {n: one.changed(owner=owner, until=until, global_position=moved[n]) for n, one in kept.items()}

    def _give_back(self, numbers: Collection[int], cursors: Mapping[int, int]) -> None:
        self._write(self._moved(numbers, cursors, None, None))
        for number in numbers:
            self.held.pop(number, None)

    def _take(self, count: int) -> None:
        now = self._clock()
        others = self._state.slots(self.group, [one for one in range(self.group.slots) if one not in self.held])
        free = [(number, kept) for number, kept in others.items() if is_free(kept.slot, self.owner, now)][:count]
        lease = {"owner": self.owner, "until": now + self._lease}
        self._write({number: kept.changed(**lease, epoch=kept.slot.epoch + 1) for number, kept in free})

    def _write(self, changes: Mapping[int, KeptSlot]) -> None:
        """Write slots; those that others have are lost."""
        done = self._state.write(changes) if changes else {}
        for number in changes:
            answer = done.get(number)
            if isinstance(answer, KeptSlot):
                self.held[number] = answer
            elif answer is None:
                self.held.pop(number, None)
        errors = [answer for answer in done.values() if isinstance(answer, StorageError)]
        if errors:
            raise errors[0]

    def _follow_group(self) -> None:
        """Begin anew if the cursors were reset."""
        group = self._state.group()
        if group is None:
            raise ConsumerStateError("the state of this consumer was deleted while it ran; begin again")
        if group.slots != self.group.slots:
            # Streams are in other slots now.
            raise ConsumerStateError(
                f"the state of this consumer was made anew with {group.slots} slots while it ran; begin again"
            )
        if group.generation != self.group.generation:
            self.group, self.held = group, {}
