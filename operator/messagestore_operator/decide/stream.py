"""Decides about a MessageStream.

docs/operator.md#phases shows its states, ``blockers.STREAM`` what keeps it from a run.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome
from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.decide.actions import Action, AddFinalizer, Decision, RemoveFinalizer, decision
from messagestore_operator.decide.blockers import STREAM, first
from messagestore_operator.decide.documents import stream_run
from messagestore_operator.decide.events import condition_events, run_events, stream_events
from messagestore_operator.decide.garbage_collection import cleanup
from messagestore_operator.decide.lasting import Lasting, lasting_of_runs
from messagestore_operator.decide.maintenance import maintenance_due, upkeep_of
from messagestore_operator.decide.run_lifecycle import (
    DesiredRun,
    PlannedRun,
    RunStage,
    follow,
    is_outdated,
    launch,
    reserve,
)
from messagestore_operator.decide.snapshot import RunKind, StreamSnapshot
from messagestore_operator.decide.stream_deletion import FINALIZER, decide_deletion
from messagestore_operator.decide.stream_record import recorded
from messagestore_operator.decide.tables import former_tables, table_key
from messagestore_operator.decide.trigger import (
    answered,
    new_request,
    next_attempt,
    next_start,
    next_time_of,
    retry_at,
    unanswered,
    without_missed,
)
from messagestore_operator.status.conditions import generation
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.runs import broke_off_as_it_is, failed
from messagestore_operator.status.stream import with_view


@dataclass(frozen=True)
class DueRun:
    """A run that is due now."""

    kind: RunKind = "ingest"
    attempt: int = 1


def decide_stream(snapshot: StreamSnapshot) -> Decision:
    """Decide about a stream."""
    stream, before = snapshot.stream, snapshot.stream.status or MessageStreamStatus()
    if stream.metadata.deletion_timestamp is not None:
        return decide_deletion(snapshot, before)
    blocker = first(STREAM, snapshot)
    watched = follow(snapshot, before.current_run, _desired_run(snapshot, before, blocker))
    status, missed = without_missed(
        stream.spec.trigger.schedule,
        stream,
        recorded(snapshot, before, watched),
        snapshot.now,
        suspended=stream.spec.suspend,
    )
    stage, wait = _next(snapshot, status, watched, blocker)
    if watched.current is not None and watched.current.kind == "ingest" and watched.dropped_by(stage):
        status = unanswered(status)
    status = _reserved(snapshot, status, stage)
    lasts = _lasting(snapshot, before, status, stage, blocker)
    status = status.model_copy(update={"lasting_failure": lasts.failure})
    outlook = Outlook(blocker, stage.trouble, wait, snapshot.paused, _has_batches(stage), lasts.error)
    status = with_view(stream, before, status, outlook, snapshot.now)
    events = [
        *run_events(before.current_run, watched, before.last_run),
        *stream_events(before, status),
        *condition_events(before, status),
    ]
    old = cleanup(snapshot, [before.current_run], [stage.current], stream.spec.run_history_limit)
    at_once = snapshot.now if watched.ended and wait is None else None
    requeue_at = [*watched.requeue_at, *stage.requeue_at, wait, lasts.stalls_at, at_once]
    done: list[Action] = [*_finalizer(stream), *watched.actions, *missed, *events, *old, *stage.actions]
    return decision(stream, stream.status, status, done, requeue_at)


def _lasting(
    snapshot: StreamSnapshot,
    before: MessageStreamStatus,
    status: MessageStreamStatus,
    stage: RunStage,
    blocker: RunError | None,
) -> Lasting:
    """The failure that only somebody can end; a run that commits batches ends it, and a pause."""
    stream = snapshot.stream
    if stream.spec.suspend or (snapshot.paused is not None and status.current_run is None):
        return Lasting()
    launched = status.current_run is not None and not stage.unlaunched
    if launched and _has_batches(stage):
        return Lasting()
    return lasting_of_runs(snapshot, stream, before, status, None if launched else blocker)


def _desired_run(snapshot: StreamSnapshot, status: MessageStreamStatus, blocker: RunError | None) -> DesiredRun:
    """A finite run continues to its end; a continuous one stops for other work, a changed spec or a changed Secret."""
    stream, current = snapshot.stream, status.current_run
    suspend = stream.spec.suspend
    run = snapshot.run(current.name) if current else None
    if current is None or run is None or not run.ref.continuous:
        return DesiredRun(generation(stream), wanted=not suspend)
    stop = suspend or is_outdated(snapshot, current, run, blocker) or _others_wait_long(snapshot, run.ref.holder)
    return DesiredRun(generation(stream), wanted=not suspend, stop=stop, maintain=upkeep_of(snapshot, status, run))


def _others_wait_long(snapshot: StreamSnapshot, holder: str) -> bool:
    queue = snapshot.lease(table_key(snapshot.stream)).queue
    since = min((request.since for request in queue if request.holder != holder), default=None)
    return since is not None and snapshot.now - since >= snapshot.defaults.yield_after


def _next(
    snapshot: StreamSnapshot, status: MessageStreamStatus, watched: RunStage, blocker: RunError | None
) -> tuple[RunStage, datetime | None]:
    """The next step: the run goes on, a reserved or new one is launched, or the time of the next."""
    stream = snapshot.stream
    if watched.current is not None and not watched.unlaunched:
        return watched.acted(), None
    held_back = blocker is not None or stream.spec.suspend or not snapshot.can_run or snapshot.paused is not None
    if watched.ended is not None:
        # The status records its end before another run is created.
        due = None if held_back else next_run(snapshot, status)
        return watched.acted(), None if isinstance(due, DueRun) else due
    if held_back:
        return RunStage(), None
    stage = watched
    if watched.current is None:
        due = next_run(snapshot, status)
        if not isinstance(due, DueRun):
            return RunStage(), due
        number = (status.run_number or 0) + 1
        stage = RunStage(reserve(snapshot, stream, due.kind, number, due.attempt))
    current = stage.current
    assert current is not None
    table = table_key(stream)
    former = former_tables(stream, snapshot.sharing, snapshot.defaults)
    make = partial(stream_run, snapshot, current)
    return launch(snapshot, PlannedRun(stream, current, [table], make, [stream], former)), None


def next_run(snapshot: StreamSnapshot, status: MessageStreamStatus) -> DueRun | datetime | None:
    """The run that is due, or when the next will be; None if only a change of the resource can start one."""
    stream, last, now = snapshot.stream, status.last_run, snapshot.now
    if last is not None and broke_off_as_it_is(last, stream) and not new_request(stream, status):
        at = retry_at(last, stream, snapshot.defaults, now)
        if at is None or at > now:
            return at
        return DueRun(attempt=next_attempt(last, stream, snapshot.defaults))
    if failed(last) or (last is not None and last.state == "Cancelled") or new_request(stream, status):
        return DueRun()
    if maintenance_due(snapshot, status) and not snapshot.lease(table_key(stream)).queue:
        return DueRun("maintain")
    at = trigger_time(snapshot, status)
    return at if at is None or at > now else DueRun()


def trigger_time(snapshot: StreamSnapshot, status: MessageStreamStatus) -> datetime | None:
    """When the trigger asks for the next run; None for a manual one."""
    stream, now = snapshot.stream, snapshot.now
    trigger = stream.spec.trigger
    if trigger.continuous is not None:
        # A run that ends at once must not be repeated at once.
        return next_start(status.last_run, snapshot.defaults.backoff_base, now)
    return next_time_of(trigger, stream, status, now)


def _has_batches(stage: RunStage) -> bool:
    """Whether the run in progress has committed a batch."""
    outcome = stage.live.outcome if stage.live else None
    return isinstance(outcome, IngestOutcome) and outcome.batches > 0


def _reserved(snapshot: StreamSnapshot, status: MessageStreamStatus, stage: RunStage) -> MessageStreamStatus:
    """The status with its current run; a new one handles every request and scheduled time until now."""
    current, known = stage.current, status.run_number or 0
    changes: dict[str, object] = {"current_run": current}
    if current is not None and current.number is not None and current.number > known:
        changes["run_number"] = current.number
        if current.kind == "ingest":
            changes |= answered(snapshot.stream.spec.trigger.schedule, snapshot.stream, status, snapshot.now)
    return status.model_copy(update=changes)


def _finalizer(stream: MessageStream) -> list[Action]:
    """Add or remove the finalizer: only data to be deleted keeps a resource."""
    wanted, has_finalizer = stream.spec.table.deletion_policy == "Delete", FINALIZER in stream.metadata.finalizers
    if wanted == has_finalizer:
        return []
    return [AddFinalizer() if wanted else RemoveFinalizer()]
