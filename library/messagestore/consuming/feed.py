"""The messages of a consumer's slots, one after the other, and how far each slot has come."""

from collections import deque
from collections.abc import Iterator, Mapping

from messagestore.consuming.source import Gone, Placed, Source
from messagestore.errors import StorageError

PAUSED_AFTER = 1000
"""So many messages of a slot are taken past one that is held; after a crash they may be handled again."""


class Feed:
    """Gives messages in order of arrival, and knows the cursors of slots.

    Attributes:
        start: the cursor with which slots began, which may lie ahead.
        is_caught_up: whether all has been given that the version that was read has; unset it to have another look.
    """

    def __init__(self, source: Source, slots: int) -> None:
        self._source, self._slots = source, slots
        self.start = 0
        self._passed: dict[int, int] = {}
        self._first_held: dict[int, int] = {}
        self._past_held: dict[int, int] = {}
        self._covered: frozenset[int] = frozenset()
        self._to = 0
        self._buffer: deque[Placed] = deque()
        self._parts: Iterator[list[Placed]] | None = None
        self._has_read = False
        self.is_caught_up = False

    def follow(self, held: Mapping[int, int], *, again: bool = False) -> None:
        """Give messages of these slots from now on: those that are new begin behind their cursors.

        Args:
            again: whether all slots begin behind these cursors.
        """
        self._settle()
        kept = {} if again else {slot: self._passed[slot] for slot in held if slot in self._passed}
        gained = held.keys() - kept.keys()
        self._passed = {slot: kept.get(slot, held[slot]) for slot in held}
        for slot in (self._first_held.keys() | self._past_held.keys()) - kept.keys():
            self._first_held.pop(slot, None)
            self._past_held.pop(slot, None)
        if gained or again:
            self._restart()

    def cursors(self) -> dict[int, int]:
        """Up to where all messages of each slot have been handled."""
        self._settle()
        held = self._first_held
        return {slot: min(at, held[slot] - 1) if slot in held else at for slot, at in self._passed.items()}

    def next(self) -> Placed | None:
        """The next message; None if there is none now."""
        while self._passed and not self.is_caught_up:
            while self._buffer:
                placed = self._buffer.popleft()
                if placed.slot in self._passed:
                    return placed
                self._to = placed.message.global_position
            if not self._fill():
                break
        return None

    def leave_out(self, gone: Gone) -> None:
        """Leave out messages that have been read, and erased since."""
        self._buffer = deque(placed for placed in self._buffer if not gone.has(placed.message))

    def done(self, placed: Placed) -> None:
        """Say that a message that was given needs no more: it is handled, or kept as one that is held."""
        self._to = placed.message.global_position
        if placed.slot in self._first_held:
            self._past_held[placed.slot] += 1
            if self._past_held[placed.slot] >= PAUSED_AFTER:
                self._settle()
                self._restart()

    def hold(self, slot: int, position: int | None) -> None:
        """Keep the cursor of a slot before a message; None: no message is held any more."""
        if position is not None:
            self._first_held[slot] = position
            self._past_held.setdefault(slot, 0)
        elif self._first_held.pop(slot, None) is not None and self._past_held.pop(slot) >= PAUSED_AFTER:
            self._settle()
            self._restart()

    def _restart(self) -> None:
        """Read again, from the cursors."""
        self._buffer.clear()
        self._parts, self._covered, self.is_caught_up = None, frozenset(), False

    def _fill(self) -> bool:
        """Read on; returns whether there is anything to read."""
        if self._parts is None:
            wanted = {slot: at for slot, at in self._passed.items() if self._past_held.get(slot, 0) < PAUSED_AFTER}
            if not wanted:
                return False
            self._has_read = False
            self._covered, self._to = frozenset(wanted), min(wanted.values())
            self._source.refuse_ahead({slot: at for slot, at in wanted.items() if at > self.start})
            self._parts = self._source.behind(wanted, self._slots)
        try:
            part = next(self._parts, None)
        except StorageError:
            # An erasure removes the files of versions that are still read: the newest one has the rest.
            if not self._has_read:
                raise
            self._settle()
            self._restart()
            return True
        if part is not None:
            self._has_read = True
            # Right after the messages, so that none is given that was erased before.
            gone = self._source.erased()
            self._buffer.extend(placed for placed in part if not gone.has(placed.message))
            return True
        self._to = max(self._to, self._source.last_position)
        self._settle()
        self._parts, self._covered, self.is_caught_up = None, frozenset(), True
        return True

    def _settle(self) -> None:
        """Note how far the slots have come."""
        for slot in self._covered:
            if slot in self._passed and self._passed[slot] < self._to:
                self._passed[slot] = self._to
