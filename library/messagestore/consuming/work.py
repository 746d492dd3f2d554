"""What a consumer does between two messages: it keeps its leases, moves cursors, and takes the next message."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from messagestore.consuming.cursors import Change
from messagestore.consuming.feed import Feed
from messagestore.consuming.holds import Holds
from messagestore.consuming.leases import Leases
from messagestore.consuming.source import Gone, Placed, Source
from messagestore.errors import ConsumerStateError
from messagestore.message import Message

_ERASED_SEEN_WITHIN = timedelta(seconds=1)
_LOST_SEEN_EACH = 5
"""Of so many looks that find no next entry, one asks whether an erasure has taken it out of the log."""


class Work:
    """The messages that one consumer is to handle now; the cursors move after ``batch_size`` of them."""

    def __init__(
        self,
        source: Source,
        leases: Leases,
        batch_size: int,
        longest_hold: timedelta,
        clock: Callable[[], datetime],
        before_moving: Callable[[], None],
    ) -> None:
        self._source, self._leases, self._batch_size = source, leases, batch_size
        self._clock, self._before_moving = clock, before_moving
        self._store_id = source.store_id
        self._feed = Feed(source, leases.group.slots)
        self._holds = Holds(longest_hold)
        self._in_hand: Placed | None = None
        self._is_retried = False
        self._done_since, self._slots_done = 0, set[int]()
        self._taken_as: dict[int, tuple[str, int]] = {}
        self._taken, self._slots_taken = False, set[int]()
        self._gone: Gone | None = None
        self._in_vain = 0
        self._due_at = self._sees_erased_at = clock()

    def next(self) -> Placed | None:
        """The next message to be handled; None if there is none now. The one before counts as handled."""
        self.finish()
        now = self._clock()
        if now >= self._due_at or self._done_since >= self._batch_size:
            self._keep(now)
        self._in_hand = self._holds.due(now) if self._holds else None
        self._is_retried = self._in_hand is not None
        if self._in_hand is None:
            self._in_hand = self._next_new()
        if self._in_hand is None and self._done_since:
            self._move()
        return self._in_hand

    def finish(self) -> None:
        """Say that the message in hand was handled."""
        placed, self._in_hand = self._in_hand, None
        if placed is None:
            return
        self._done_since += 1
        self._slots_done.add(placed.slot)
        if self._is_retried:
            self._holds.done(placed, self._clock())
            self._note_held([placed.slot])
        else:
            self._feed.done(placed)

    def hold(self) -> None:
        """Say that the message in hand could not be handled: its stream waits for another try."""
        placed, self._in_hand = self._in_hand, None
        assert placed is not None
        self._holds.failed(placed, self._clock())
        if not self._is_retried:
            self._note_held([placed.slot])
            self._feed.done(placed)

    def drop(self) -> None:
        """Forget the message in hand; it was not handled."""
        self._in_hand = None

    def give_back(self) -> None:
        """Move the cursors, and give all slots back."""
        self._before_moving()
        if self._taken:
            self._leases.read_again()
        self._leases.leave({} if self._taken else self._feed.cursors())

    def look_for_more(self) -> bool:
        """Whether the store has more than was read; about one request while it has nothing."""
        has_more = self._feed.is_caught_up and self._has_more()
        if has_more:
            self._feed.is_caught_up = False
        return has_more

    def may_have_more(self) -> bool:
        """Whether ``take`` may find something, after it found nothing."""
        return self._clock() >= self._leases.looks_at or self._has_more()

    def take(self, count: int) -> list[Message]:
        """The next messages behind the cursors as they are kept now, at most ``count``; the cursors stay."""
        self._in_hand, self._taken = None, True
        self._leases.read_again()
        if self._clock() >= min(self._leases.looks_at, self._leases.renews_at):
            self._look({})
        self._feed.start = self._leases.group.start
        self._feed.follow(self._kept(), again=True)
        taken = list[Placed]()
        while len(taken) < count and (placed := self._feed.next()) is not None:
            self._feed.done(placed)
            taken.append(placed)
        self._slots_taken = {placed.slot for placed in taken}
        return [placed.message for placed in taken]

    def behind_taken(self) -> list[Change]:
        """How the cursors of what was taken move, in the caller's transaction."""
        cursors = {slot: at for slot, at in self._feed.cursors().items() if slot in self._slots_taken}
        return self._leases.moved(cursors)

    def _has_more(self) -> bool:
        if self._source.has_more():
            return True
        self._in_vain += 1
        if self._in_vain % _LOST_SEEN_EACH or not self._source.has_lost_version():
            return False
        # The store is to be opened again, as at each look.
        self._leases.looks_at = self._due_at = self._clock()
        return True

    def _keep(self, now: datetime) -> None:
        """Keep the leases, as often as it is due, and move the cursors after a batch."""
        if now >= self._leases.looks_at:
            self._before_moving()
            self._look(self._feed.cursors())
            self._follow()
        elif now >= self._leases.renews_at:
            self._before_moving()
            self._leases.renew(self._feed.cursors())
            self._follow()
        elif self._done_since >= self._batch_size:
            self._move()
        if now >= self._sees_erased_at:
            self._see_erased(now)
        self._due_at = min(self._leases.looks_at, self._leases.renews_at, self._sees_erased_at)

    def _move(self) -> None:
        self._before_moving()
        cursors = self._feed.cursors()
        self._leases.move({slot: cursors[slot] for slot in self._slots_done if slot in cursors})
        self._follow()

    def _look(self, cursors: dict[int, int]) -> None:
        """See who is there, and whether the store is still the one that was opened."""
        if self._source.open_again_if_replaced():
            if self._source.store_id != self._store_id:
                raise ConsumerStateError("the store was made again while this consumer ran; begin again")
            # The cursors are before what is held, so that it comes again.
            self._holds.keep_slots(())
            self._feed.follow(self._kept(), again=True)
        self._leases.look(cursors)

    def _follow(self) -> None:
        """Take messages of the slots of now, after they were written; of those that were lost meanwhile anew."""
        self._done_since = 0
        self._slots_done.clear()
        self._feed.start = self._leases.group.start
        kept, before = self._kept(), self._taken_as
        # A new generation counts its epochs anew.
        self._taken_as = {number: (one.slot.generation, one.slot.epoch) for number, one in self._leases.held.items()}
        same = {number: cursor for number, cursor in kept.items() if before.get(number) == self._taken_as[number]}
        if len(same) < len(before) or len(same) < len(kept):
            self._feed.follow(same)
            self._holds.keep_slots(same)
        self._feed.follow(kept)

    def _kept(self) -> dict[int, int]:
        return {number: kept.slot.global_position for number, kept in self._leases.held.items()}

    def _next_new(self) -> Placed | None:
        while (placed := self._feed.next()) is not None:
            if not self._holds.has(placed.message.stream_name):
                return placed
            self._holds.behind(placed)
            self._feed.done(placed)
        return None

    def _note_held(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._feed.hold(slot, self._holds.first(slot))

    def _see_erased(self, now: datetime) -> None:
        """Leave out what was erased since it was read."""
        before, self._gone = self._gone, self._source.erased()
        self._sees_erased_at = now + _ERASED_SEEN_WITHIN
        if self._gone is not before:
            self._feed.leave_out(self._gone)
            held = self._holds.slots()
            self._holds.leave_out(self._gone)
            self._note_held(held)
