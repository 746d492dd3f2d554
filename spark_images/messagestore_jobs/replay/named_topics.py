"""Topics that messages name: what becomes of messages whose topic takes none.

Another destination of the subscription gets them, if one has ``otherwise``; without one, this destination stops there.
"""

import json
from functools import cached_property

import numpy as np
from py4j.java_gateway import JavaObject

from messagestore_core.contract.base import MAX_COUNT
from messagestore_core.contract.replay import Subscription
from messagestore_core.store.cursors import Cursor, cursor_folder, cursor_in
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.refused import RefusedMessages
from messagestore_core.store.tombstones import erased_positions

_WHY = {
    "Unnamed": ("TopicRefused", "names no topic"),
    "Unmatched": ("TopicRefused", "names a topic that topicFrom.pattern does not match"),
    "Missing": ("TopicMissing", "names a topic that is not there, and none is created that a message names"),
    "Denied": ("KafkaDenied", "names a topic for which the user lacks the ACL Write or Read"),
}
_PASSED = ", and the destination with otherwise has passed it already"


class NamedTopics:
    """What one destination has left to another, and whether it may leave it more.

    A replay that is no subscription has no other destination. The cursor is where the sender goes on.
    """

    def __init__(self, held: HeldStore, subscription: Subscription | None, cursor: Cursor | None) -> None:
        self._held, self._cursor = held, cursor
        self._otherwise = subscription.otherwise if subscription else ""
        self._refused: RefusedMessages | None = None
        if cursor is not None:
            self._refused = RefusedMessages(held, _folder(cursor, cursor.destination), cursor.store)

    @cached_property
    def _left(self) -> set[int]:
        """What is behind the cursor, and was left to the other destination since the cursor was moved back."""
        if self._refused is None or self._cursor is None:
            return set()
        return set(self._refused.positions(self._cursor.global_position, MAX_COUNT, self._cursor.resets).tolist())

    def open(self, sender: JavaObject) -> None:
        """Have a sender leave out what was left to the other destination, though its topic may be there by now."""
        sender.leaveOut(json.dumps(sorted(self._left)))

    def take(self, sender: JavaObject, most: int) -> RunFailedError | None:
        """Take the next records, and leave to the other destination what no topic takes.

        Return why the destination stops behind what is taken, if it does.
        """
        refused = [(number, position, why) for number, position, why in json.loads(sender.take(most))]
        left, stopped, passed = list[int](), None, self._passed_by_other() if refused else None
        for number, position, why in refused:
            if (words := self._stops(position, passed)) is not None:
                sender.cut(number)
                stopped = _stopped(position, why, words)
                break
            left.append(position)
        if left:
            self._note(left)
            # If the transaction is aborted, these are read again.
            sender.leaveOut(json.dumps(left))
        return stopped

    def left(self, after: int, until: int) -> int:
        """How many messages of a range were left to the other destination; those before it are forgotten."""
        self._left -= {position for position in self._left if position <= after}
        left = [position for position in self._left if position <= until]
        # One that was erased before its transaction was not read again, and counts as erased.
        return int((~np.isin(left, erased_positions(self._held))).sum()) if left else 0

    def _passed_by_other(self) -> int | None:
        """The last position that the destination with ``otherwise`` has passed; None if there is none, or no cursor.

        It doesn't pass what this destination has not sent or left to it.
        """
        if self._cursor is None or not self._otherwise:
            return None
        other = cursor_in(self._held, _folder(self._cursor, self._otherwise), self._cursor.store)
        return None if other is None else other.global_position

    def _stops(self, position: int, passed: int | None) -> str | None:
        """What stops the destination at a message that no topic takes; None if the other destination gets it."""
        if self._refused is None or not self._otherwise:
            return ""
        if passed is not None and passed < position:
            return None
        # After a reset it is refused again, and the other destination may have it.
        return None if len(self._refused.positions(position - 1, position)) else _PASSED

    def _note(self, positions: list[int]) -> None:
        assert self._refused is not None
        assert self._cursor is not None
        self._refused.note(self._held, self._cursor.resets, positions)
        self._left.update(positions)


def _folder(cursor: Cursor, destination: str) -> str:
    namespace, _, name = cursor.subscription.partition("/")
    return cursor_folder(namespace, name, destination)


def _stopped(position: int, why: str, words: str) -> RunFailedError:
    reason, what = _WHY[why]
    return RunFailedError(
        reason,
        f"all that goes before global position {position} is sent; the message there {what}{words}: change topicFrom "
        "or the topics, give another of several destinations otherwise: true, or pass the message over, a subscription "
        "by annotation messagestore.dev/reset-to",
    )
