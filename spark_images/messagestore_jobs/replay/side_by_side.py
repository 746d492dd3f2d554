"""Several destinations of a continuous replay, side by side: each goes on by itself, in a thread of its own.

One that is away holds no other up: it is tried again by a backoff, and then gets all that it lacks.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pyspark import InheritableThread
from typing_extensions import override

from messagestore_core.clock import now
from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import DestinationState, GoingOn, ReplayOutcome
from messagestore_core.store.errors import OUT_OF_MEMORY, RUN_STOPPED, RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import task_of
from messagestore_jobs.replay.continuous import send_on
from messagestore_jobs.replay.control import ReplayControl, WithinLimits
from messagestore_jobs.replay.leaves import ErrorOf, check_destination, cursor_of, name_of, together
from messagestore_jobs.replay.unsent import refuse_unsent

_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
_END_SECONDS = 30.0
"""For destinations to end what they have under way, once the run was told to stop."""
_LOOK_SECONDS = 0.2
_ENDS = frozenset({"MessagesBroken", "MessagesLost"})
"""The cursor is past a message that was not sent: the destination waits until somebody says that it may go on."""
_log = logging.getLogger(__name__)


def send_side_by_side(run: Run, leaves: Sequence[Run], control: ReplayControl, error_of: ErrorOf) -> ReplayOutcome:
    """Send to all destinations until told to stop.

    Args:
        run: the whole one.
        leaves: the run of each destination.

    Raises:
        RunFailedError: the run is out of memory.
    """
    board = Board(run, [name_of(leaf) for leaf in leaves], control)
    each = [_Destination(leaf, board, error_of) for leaf in leaves]
    threads = [InheritableThread(target=one.go, name=f"to-{one.name}", daemon=True) for one in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not board.suspended():
            thread.join(_LOOK_SECONDS)
    until = time.monotonic() + _END_SECONDS
    for thread in threads:
        # One that waits for an answer sends nothing more, as it finds that the run was told to stop.
        thread.join(max(0.0, until - time.monotonic()))
    if board.fatal is not None:
        raise RunFailedError(board.fatal.reason, board.fatal.message, board.outcome())
    return board.outcome(complete=True)


def wait_after(tries: int) -> timedelta:
    """How long to wait after so many tries that failed, one after the other."""
    doubled: int = 2 ** min(tries - 1, 10)
    return min(_FIRST_WAIT * doubled, _LONGEST_WAIT)


class Board(WithinLimits):
    """How far each destination is, as threads tell it; it controls them as the run is controlled."""

    def __init__(self, run: Run, names: Sequence[str], control: ReplayControl) -> None:
        super().__init__(control)
        self._run, self._lock = run, threading.Lock()
        self._states = {name: DestinationState(name=name, going_on=GoingOn()) for name in names}
        self._outcomes: dict[str, ReplayOutcome] = {}
        self._tombstone_versions: dict[str, int] = {}
        self._begun: set[str] = set()
        self.fatal: RunError | None = None

    @override
    def suspended(self) -> bool:
        return self.fatal is not None or super().suspended()

    @override
    def stopped(self, wait: timedelta) -> bool:
        return self.fatal is not None or super().stopped(wait)

    def begins(self, name: str) -> None:
        """A destination begins to send."""
        with self._lock:
            self._begun.add(name)

    def took(self, name: str, outcome: ReplayOutcome) -> None:
        """A destination is well, and so far."""
        with self._lock:
            self._states[name] = DestinationState(name=name, cursor=outcome.cursor, going_on=GoingOn())
            self._outcomes[name] = outcome
            if outcome.tombstones is not None:
                self._tombstone_versions[name] = outcome.tombstones
            self._tell()

    def failed(self, state: DestinationState) -> None:
        """A destination has failed, and has nothing under way."""
        with self._lock:
            known = self._states[state.name].cursor
            self._states[state.name] = state if state.cursor else state.model_copy(update={"cursor": known})
            self._begun.discard(state.name)
            self._tombstone_versions.pop(state.name, None)
            self._tell()

    def outcome(self, *, complete: bool = False) -> ReplayOutcome:
        """All of them together."""
        with self._lock:
            return self._together(complete=complete)

    def _tell(self) -> None:
        self._whole.reached(self._together(complete=False))

    def _together(self, *, complete: bool) -> ReplayOutcome:
        outcomes = [self._outcomes[name] for name in self._states if name in self._outcomes]
        both = together(outcomes, list(self._states.values()), complete=complete)
        return both.model_copy(update={"tombstones": self._tombstones()})

    def _tombstones(self) -> int | None:
        """Those by which all that is under way is judged; None if that is not known of one that has begun."""
        if self._begun - self._tombstone_versions.keys():
            return None
        versions = [self._tombstone_versions[name] for name in self._begun]
        return min(versions) if versions else self._run.store.table("tombstones").version()


class _Destination(WithinLimits):
    """One destination, in its thread."""

    def __init__(self, leaf: Run, board: Board, error_of: ErrorOf) -> None:
        super().__init__(board)
        # What a store has open is one thread's.
        store = HeldStore.of(leaf.document.table, leaf.store.storage)
        check_folder(store)
        self._leaf, self._board, self._error_of = replace(leaf, store=store), board, error_of
        self.name = name_of(leaf)
        self._tries, self._reason = 0, ""
        self._since: datetime | None = None

    def reached(self, outcome: ReplayOutcome) -> None:
        """It takes what is sent."""
        self._tries, self._reason = 0, ""
        self._board.took(self.name, outcome)

    def go(self) -> None:
        """Send until the run ends, and try again what fails, each time later."""
        while True:
            try:
                check_destination(self._leaf)
                self._board.begins(self.name)
                outcome = send_on(self._leaf, self)
                self._board.took(self.name, outcome)
                refuse_unsent(outcome, task_of(self._leaf))
                return
            except BaseException as failure:
                # A panic of delta-rs is no Exception, and a thread's end would be heard by nobody.
                error = self._error_of(failure, self._leaf.document)
                if error.reason == RUN_STOPPED or self._board.suspended():
                    return
                if error.reason == OUT_OF_MEMORY:
                    self._board.fatal = error
                    return
                _log.info("destination %s failed", self.name, exc_info=True)
                wait = self._failed(error)
            if error.reason in _ENDS or self._board.stopped(wait):
                return

    def _failed(self, error: RunError) -> timedelta:
        """Tell that it failed; return how long to wait before the next try."""
        at = now(self._leaf.document)
        if error.reason != self._reason:
            self._reason, self._since = error.reason, at
        self._tries += 1
        going_on = GoingOn(tries=self._tries, since=self._since, last_try=at)
        cursor = cursor_of(self._leaf)
        self._board.failed(DestinationState(name=self.name, cursor=cursor, error=error, going_on=going_on))
        return wait_after(self._tries)
