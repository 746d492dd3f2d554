"""Several destinations: each is a subscription of its own, with a cursor under its name.

One that fails stops no other. The report says of each how far it is, and why it failed.

Those of a continuous replay go on side by side, each in a thread of its own. One that is away is tried again by a
backoff, and then gets all that it lacks.
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
from messagestore_core.contract.replay import CursorState, DestinationState, GoingOn, ReplayOutcome, RoutesDestination
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.errors import OUT_OF_MEMORY, RUN_STOPPED, RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder, exists, store_id
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import task_of
from messagestore_jobs.replay.continuous import send_on
from messagestore_jobs.replay.control import ReplayControl, WithinLimits
from messagestore_jobs.replay.cursor import SubscriptionCursor, forget_removed
from messagestore_jobs.replay.freeze import nothing
from messagestore_jobs.replay.leaves import (
    ErrorOf,
    check_destination,
    cursor_of,
    leaves_of,
    name_of,
    outcome_of,
    together,
)
from messagestore_jobs.replay.sending import refuse_unsent
from messagestore_jobs.replay.subscription import SubscriptionRun

_OF_THE_RUN = frozenset({RUN_STOPPED, OUT_OF_MEMORY})
"""Reasons of failures that no other destination would be spared."""
_LOOK_FOR_STORE = timedelta(seconds=5)
_log = logging.getLogger(__name__)
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
_END_SECONDS = 30.0
"""For destinations to end what they have under way, once the run was told to stop."""
_LOOK_SECONDS = 0.2
_ENDS = frozenset({"MessagesBroken", "MessagesLost"})
"""The cursor is past a message that was not sent: the destination waits until somebody says that it may go on."""


def in_words(failure: BaseException, document: RunDocument) -> RunError:
    """A failure by its own words."""
    return RunError(reason=getattr(failure, "reason", "RunFailed"), message=str(failure))


def send_routes(run: Run, control: ReplayControl, error_of: ErrorOf) -> ReplayOutcome:
    """Send to each destination what is behind its cursor: one after the other, or side by side if the run goes on.

    Raises:
        RunFailedError: the run was told to stop, or is out of memory.
    """
    to, subscription = task_of(run).destination, task_of(run).subscription
    assert isinstance(to, RoutesDestination)
    assert subscription is not None
    while not exists(run.store):
        if not subscription.continuous or control.stopped(_LOOK_FOR_STORE):
            return nothing()
    forget_removed(run, store_id(run.store), {route.name for route in to.routes})
    sent = _Sent(control)
    leaves = leaves_of(run)
    _open_otherwise(leaves)
    if subscription.continuous:
        return send_side_by_side(run, leaves, control, error_of)
    for leaf in leaves:
        if not control.suspended():
            _send(leaf, sent, error_of)
    return sent.outcome(of=len(to.routes))


def _open_otherwise(leaves: Sequence[Run]) -> None:
    """Reset the cursor of the destination with ``otherwise``, if asked for, before others leave messages to it."""
    for leaf in leaves:
        routing = task_of(leaf).select.routing
        if routing is not None and routing.deciders:
            try:
                SubscriptionCursor(leaf).open()
            except Exception:
                _log.info("the cursor of what no other gets was not opened", exc_info=True)


def refuse_all_failed(outcome: ReplayOutcome) -> ReplayOutcome:
    """Return the outcome if a destination takes what is sent, or none was tried.

    Raises:
        RunFailedError: all that were tried have failed.
    """
    errors = [(one.name, one.error) for one in outcome.destinations if one.error is not None]
    if errors and len(errors) == len(outcome.destinations):
        said = "; ".join(f"{name}: {error.reason}: {error.message}" for name, error in errors)
        raise RunFailedError("DestinationsFailed", said, outcome)
    return outcome


class _Sent(WithinLimits):
    """What has been sent to the destinations so far; controls the one under way as the run is controlled."""

    def __init__(self, control: ReplayControl) -> None:
        super().__init__(control)
        self._outcomes: list[ReplayOutcome] = []
        self._states: list[DestinationState] = []

    def add(self, name: str, outcome: ReplayOutcome, cursor: CursorState | None, error: RunError | None = None) -> None:
        """Add the outcome of a destination."""
        self._outcomes.append(outcome)
        self._states.append(DestinationState(name=name, cursor=cursor, error=error))

    def outcome(self, of: int | None = None) -> ReplayOutcome:
        """The sums, and each destination that was tried; complete if so many were, and none failed."""
        ends = len(self._states) == of and all(state.error is None for state in self._states)
        return together(self._outcomes, self._states, complete=ends)

    def reached(self, outcome: ReplayOutcome) -> None:
        """Tell the outcome so far."""
        self._whole.reached(together([*self._outcomes, outcome], self._states, complete=False))


def _send(leaf: Run, sent: _Sent, error_of: ErrorOf) -> None:
    """Send to one destination, and keep what comes of it.

    Raises:
        RunFailedError: the run was told to stop, or is out of memory.
    """
    task, name = task_of(leaf), name_of(leaf)
    try:
        check_destination(leaf)
        outcome = refuse_unsent(SubscriptionRun(leaf, sent).send(), task)
    except Exception as failure:
        error = error_of(failure, leaf.document)
        if error.reason in _OF_THE_RUN:
            raise RunFailedError(error.reason, error.message, sent.outcome()) from failure
        _log.info("destination %s failed", name, exc_info=True)
        # What a run meets that was told to stop may come of its end.
        if not leaf.stopped():
            outcome = outcome_of(failure)
            sent.add(name, outcome, outcome.cursor or cursor_of(leaf), error)
    else:
        sent.add(name, outcome, outcome.cursor)


def send_side_by_side(run: Run, leaves: Sequence[Run], control: ReplayControl, error_of: ErrorOf) -> ReplayOutcome:
    """Send to all destinations of the whole run, by a run of each, until told to stop.

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
                outcome = send_on(self._leaf, self, lambda: self._board.begins(self.name))
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
