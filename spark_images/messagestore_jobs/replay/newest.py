"""How far a store has come, as a run that goes on looks for it: by one request a second while nothing comes."""

import time
from datetime import timedelta

from messagestore_core.store.delta_log import checkpoint_in, head_of, next_global_position
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LAST_CHECKPOINT
from messagestore_jobs.replay.source import is_gone

LOOK_AGAIN = timedelta(seconds=1)
LOOK_WHOLE_SECONDS = 20.0
"""How often the logs are looked at as a whole."""
_TURNS, _CHECKPOINTS_TURN = 5, 2
"""Of so many looks that find nothing, this one asks for the last checkpoint in place of the next entry."""


class Newest:
    """The newest version of ``messages``, and the last global position of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.version, self.head, self._looked_at = 0, 0, 0.0
        self._in_vain = 0
        self._gone_at: int | None = None
        self._look_whole()

    def look(self) -> bool:
        """Look for commits that came since; return whether the logs were looked at as a whole.

        Of the store's own runs each commit tells the last position.
        """
        asks_checkpoint = self._in_vain % _TURNS == _CHECKPOINTS_TURN
        self._in_vain += 1
        if not asks_checkpoint:
            self._follow()
        is_cut = asks_checkpoint and self._is_cut()
        if not is_cut and time.monotonic() - self._looked_at < LOOK_WHOLE_SECONDS:
            return False
        self._look_whole()
        return True

    def _follow(self) -> None:
        """Read the entries that came since."""
        while (entry := self._store.entry("messages", self.version + 1)) is not None:
            self._in_vain = 0
            self.version += 1
            head = head_of(entry)
            self.head = self._last_position() if head is None or head < self.head else head

    def _is_cut(self) -> bool:
        """Whether the log has lost the next entry: an erasure removes all before a checkpoint of its own."""
        return (checkpoint_in(self._store.log_object("messages", LAST_CHECKPOINT)) or 0) > self.version

    def is_to_be_read_anew(self, error: Exception) -> bool:
        """Whether a read failed as an erasure has removed files; those of the newest version are there."""
        version = self._store.table("messages").version()
        if not is_gone(error) or self._gone_at == version:
            return False
        self._gone_at = version
        return True

    def _look_whole(self) -> None:
        self.version, self.head = self._store.table("messages").version(), self._last_position()
        self._looked_at = time.monotonic()

    def _last_position(self) -> int:
        return next_global_position(self._store) - 1
