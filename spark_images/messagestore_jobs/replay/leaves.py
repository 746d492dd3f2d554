"""Each of several destinations of a subscription as a run of its own, and what comes of all of them together."""

import logging
from collections.abc import Callable, Iterable, Sequence

from messagestore_core.contract.base import RunError
from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.replay import (
    CursorState,
    Decider,
    DestinationState,
    FrozenSelection,
    ReplayOutcome,
    ReplayProgress,
    Route,
    RoutesDestination,
    Routing,
)
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.cursors import cursor_folder
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.objects import check_reachable
from messagestore_jobs.context import Run
from messagestore_jobs.replay.begin import task_of, with_task
from messagestore_jobs.replay.chunks import SHOWN
from messagestore_jobs.replay.cursor import SubscriptionCursor
from messagestore_jobs.replay.freeze import nothing
from messagestore_jobs.replay.waiting import is_complete_only
from messagestore_jobs.source.kafka_listing import check_brokers

ErrorOf = Callable[[BaseException, RunDocument], RunError]
_SUMMED = ("replayed", "failed", "erased", "lost", "missed", "expired", "withheld", "set_aside")
_log = logging.getLogger(__name__)


def leaves_of(run: Run) -> list[Run]:
    """The run of each destination that this run doesn't leave alone."""
    to = task_of(run).destination
    assert isinstance(to, RoutesDestination)
    return [_leaf(run, route, to.routes) for route in to.routes if not route.rests]


def name_of(leaf: Run) -> str:
    """The name of a run's destination."""
    subscription = task_of(leaf).subscription
    assert subscription is not None
    return subscription.destination


def check_destination(leaf: Run) -> None:
    """Look soon whether a destination can be reached, as its clients wait longer.

    Raises:
        RunFailedError: its brokers can't be reached.
        OSError: a folder can't.
    """
    to = task_of(leaf).to
    check_reachable(to.folders, leaf.store.storage)
    if isinstance(to, KafkaDestination):
        check_brokers(to.cluster)


def _leaf(run: Run, route: Route, routes: Sequence[Route]) -> Run:
    """The run of a subscription that has this destination alone."""
    task = task_of(run)
    assert task.subscription is not None
    others = [one for one in routes if one.name != route.name] if route.otherwise else []
    # A sequence is not parted: a destination stops at a member whose topic takes none.
    leaving = [] if is_complete_only(task.select) else others
    resource = run.document.resource
    routing = Routing(
        where=route.where,
        unless=tuple(one.where for one in others if one.where is not None),
        deciders=tuple(
            Decider(folder=cursor_folder(resource.namespace, resource.name, one.name), where=one.where)
            for one in leaving
            if isinstance(one.destination, KafkaDestination) and one.destination.topic_from is not None
        ),
    )
    subscription = task.subscription.model_copy(
        update={
            "start": route.start or task.subscription.start,
            "reset": route.reset or task.subscription.reset,
            "destination": route.name,
            "beside": tuple(one.name for one in routes if one.name != route.name),
            "otherwise": next((one.name for one in routes if one.otherwise), ""),
        }
    )
    select = task.select.model_copy(update={"routing": routing if routing != Routing() else None})
    return with_task(run, {"destination": route.destination, "subscription": subscription, "select": select})


def outcome_of(failure: Exception) -> ReplayOutcome:
    """What was sent before a failure."""
    outcome = failure.outcome if isinstance(failure, RunFailedError) else None
    return outcome if isinstance(outcome, ReplayOutcome) else nothing()


def cursor_of(leaf: Run) -> CursorState | None:
    """How far a destination is that failed, and what is behind its cursor, without asking it."""
    try:
        return SubscriptionCursor(leaf).state()
    except Exception:
        _log.info("nothing is known of the cursor", exc_info=True)
        return None


def together(outcomes: Sequence[ReplayOutcome], states: Sequence[DestinationState], *, complete: bool) -> ReplayOutcome:
    """One outcome of several."""
    if not outcomes:
        return nothing().model_copy(update={"complete": complete})
    selections, progresses = [one.selection for one in outcomes], [one.progress for one in outcomes]
    messages = sum(one.messages for one in selections)
    done = sum(one.progress.percent * one.selection.messages for one in outcomes)
    firsts = [one.first_global_position for one in selections if one.first_global_position is not None]
    cursors = [state.cursor for state in states if state.cursor is not None]
    return ReplayOutcome(
        selection=FrozenSelection(
            table_version=max(one.table_version for one in selections),
            messages=messages,
            bytes=sum(one.bytes for one in selections),
            first_global_position=min(firsts, default=None),
            last_global_position=_most(one.last_global_position for one in selections),
        ),
        progress=ReplayProgress(
            **{name: sum(getattr(one, name) for one in progresses) for name in _SUMMED},
            first_failed_positions=_first(one.first_failed_positions for one in progresses),
            first_lost_positions=_first(one.first_lost_positions for one in progresses),
            percent=done // messages if messages else 100,
            last_global_position=_most(one.last_global_position for one in progresses),
            messages_per_second=progresses[-1].messages_per_second,
        ),
        complete=complete and all(one.complete for one in outcomes),
        round=_most(cursor.rounds for cursor in cursors),
        redelivered=sum(cursor.sent for cursor in cursors),
        destinations=tuple(states),
    )


def _first(positions: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sorted({position for some in positions for position in some})[:SHOWN])


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
