"""Streams that are held because one of their messages could not be handled."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore.consuming.source import Gone, Placed

_FIRST = timedelta(seconds=1)


@dataclass
class _Hold:
    slot: int
    messages: deque[Placed]
    due: datetime
    tries: int = 1


class Holds:
    """Streams that wait for another try of a message, each with the messages that came behind it.

    Args:
        longest: the longest time between two tries; the first is a second, and each next one twice the one before.
    """

    def __init__(self, longest: timedelta) -> None:
        self._longest = longest
        self._by_stream: dict[str, _Hold] = {}

    def __bool__(self) -> bool:
        return bool(self._by_stream)

    def has(self, stream: str) -> bool:
        """Whether a stream is held."""
        return stream in self._by_stream

    def failed(self, placed: Placed, now: datetime) -> None:
        """Hold a message's stream; or longer, if it was held because of this message."""
        stream = placed.message.stream_name
        hold = self._by_stream.get(stream)
        if hold is None:
            self._by_stream[stream] = _Hold(placed.slot, deque([placed]), now + min(_FIRST, self._longest))
            return
        # The number of doublings is bounded, as a span has a largest value.
        hold.due = now + min(_FIRST * 2 ** min(hold.tries, 30), self._longest)
        hold.tries += 1

    def behind(self, placed: Placed) -> None:
        """Keep a message of a held stream."""
        self._by_stream[placed.message.stream_name].messages.append(placed)

    def due(self, now: datetime) -> Placed | None:
        """A message that is due for another try."""
        return next((hold.messages[0] for hold in self._by_stream.values() if hold.due <= now), None)

    def done(self, placed: Placed, now: datetime) -> None:
        """Say that the first message of a held stream is handled; the next one is due."""
        stream = placed.message.stream_name
        hold = self._by_stream[stream]
        hold.messages.popleft()
        hold.due, hold.tries = now, 0
        if not hold.messages:
            del self._by_stream[stream]

    def first(self, slot: int) -> int | None:
        """The first position that is held in a slot; None without one."""
        held = (hold.messages[0].message.global_position for hold in self._by_stream.values() if hold.slot == slot)
        return min(held, default=None)

    def slots(self) -> set[int]:
        """The slots with held streams."""
        return {hold.slot for hold in self._by_stream.values()}

    def leave_out(self, gone: Gone) -> None:
        """Forget messages that were erased."""
        for name, hold in [*self._by_stream.items()]:
            hold.messages = deque(placed for placed in hold.messages if not gone.has(placed.message))
            if not hold.messages:
                del self._by_stream[name]

    def keep_slots(self, slots: Collection[int]) -> None:
        """Forget what is held in other slots."""
        self._by_stream = {name: hold for name, hold in self._by_stream.items() if hold.slot in slots}
