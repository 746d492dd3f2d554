"""Several destinations: each is a subscription of its own, with a cursor under its name.

One that fails stops no other. The report says of each how far it is, and why it failed.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import CursorState, DestinationState, ReplayOutcome, RoutesDestination
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.errors import OUT_OF_MEMORY, RUN_STOPPED, RunFailedError
from messagestore_core.store.folder import exists, store_id
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import nothing, task_of
from messagestore_jobs.replay.control import ReplayControl, WithinLimits
from messagestore_jobs.replay.cursor import SubscriptionCursor, forget_removed
from messagestore_jobs.replay.leaves import (
    ErrorOf,
    check_destination,
    cursor_of,
    leaves_of,
    name_of,
    outcome_of,
    together,
)
from messagestore_jobs.replay.side_by_side import send_side_by_side
from messagestore_jobs.replay.subscription import SubscriptionRun
from messagestore_jobs.replay.unsent import refuse_unsent

_OF_THE_RUN = frozenset({RUN_STOPPED, OUT_OF_MEMORY})
"""Reasons of failures that no other destination would be spared."""
_LOOK_FOR_STORE = timedelta(seconds=5)
_log = logging.getLogger(__name__)


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
