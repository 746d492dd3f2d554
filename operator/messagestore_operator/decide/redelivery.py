"""Decides about a ReplayJob with a trigger: each run sends what is due for a retry, or what is behind its cursor."""

from datetime import datetime

from messagestore_core.bounds import LAST_MOMENT
from messagestore_core.contract.base import RunError
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.status import FinishedRun
from messagestore_operator.decide.actions import Action, Decision, EmitEvent, decision
from messagestore_operator.decide.blockers import REDELIVERY, first, held_back
from messagestore_operator.decide.documents import rate
from messagestore_operator.decide.events import condition_events, run_events
from messagestore_operator.decide.garbage_collection import cleanup
from messagestore_operator.decide.lasting import Lasting, lasting_of_runs
from messagestore_operator.decide.replay_runs import GONE, erases_beside, erasure_of, sends, start
from messagestore_operator.decide.routes import due_at, next_tries, routes_of, stalls_at, with_retries
from messagestore_operator.decide.run_lifecycle import DesiredRun, RunStage, follow, is_outdated, reserve
from messagestore_operator.decide.snapshot import ReplaySnapshot
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
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.redelivery import with_view
from messagestore_operator.status.replay import replay_outcome, with_progress
from messagestore_operator.status.routes import failed_before, failing, is_of_destinations, with_states
from messagestore_operator.status.runs import broke_off_as_it_is, failed
from messagestore_operator.translate.annotations import reset_requested

MOST_RUNS = 10
"""Ended runs that the status lists."""


def decide_redelivery(snapshot: ReplaySnapshot, before: ReplayJobStatus) -> Decision:
    """Decide about a replay that ends only with its resource."""
    job = snapshot.job
    erasure = erasure_of(snapshot)
    blocker, beside = first(REDELIVERY, snapshot), _beside_erasure(snapshot, before, erasure)
    pauses = job.spec.suspend or (erasure is not None and beside is None)
    watched = follow(snapshot, before.current_run, _desired_run(snapshot, before, blocker, pauses=pauses))
    assert job.spec.trigger is not None
    status, events = without_missed(
        job.spec.trigger.schedule, job, recorded(before, watched), snapshot.now, suspended=job.spec.suspend
    )
    if _is_requested(job, status):
        status = with_retries(status)
    stage, wait = _next(snapshot, status, watched, blocker, erasure)
    if watched.dropped_by(stage):
        status = unanswered(status).model_copy(update={"last_handled_reset": None})
    status = _reserved(snapshot, status, stage)
    # A run that sends messages ends a failure, and so does a pause, and a run that goes on and has its destination.
    goes_on = job.spec.goes_on and (report := replay_outcome(stage.live)) is not None and report.takes
    ends = job.spec.suspend or sends(stage, before) or goes_on
    lasts = Lasting() if ends else lasting_of_runs(snapshot, job, before, status, blocker)
    status = status.model_copy(update={"lasting_failure": lasts.failure})
    failures = failing(job, status)
    stalls = stalls_at(failures, snapshot.defaults)
    outlook = Outlook(
        blocker,
        stage.trouble,
        wait,
        progressing=goes_on,
        lasting=lasts.error,
        stalled=frozenset(name for name, at in stalls.items() if at <= snapshot.now),
        next_tries=next_tries(job, failures, snapshot.defaults, snapshot.now),
    )
    status = with_view(job, before, status, outlook, snapshot.now)
    actions: list[Action] = [*watched.actions, *events, *run_events(before.current_run, watched), *_taken_up(watched)]
    actions += [*condition_events(before, status), *stage.actions]
    actions += cleanup(snapshot, [before.current_run], [stage.current])
    at_once = snapshot.now if watched.ended else None
    requeue_at = [*watched.requeue_at, *stage.requeue_at, wait, lasts.stalls_at, at_once]
    requeue_at += [at for at in stalls.values() if at > snapshot.now]
    if beside is not None and beside < LAST_MOMENT:
        requeue_at.append(beside)
    return decision(job, job.status, status, actions, requeue_at)


def recorded(before: ReplayJobStatus, stage: RunStage) -> ReplayJobStatus:
    """The status with the progress of the run in progress, or the outcome of the ended one."""
    ended = stage.ended
    report = ended.report if ended else stage.live
    outcome, status = replay_outcome(report), with_progress(before, report)
    if ended is None:
        return status
    run = ended.finished_run()
    changes: dict[str, object] = {
        "current_run": None,
        "last_run": run,
        "recent_runs": (run, *before.recent_runs)[:MOST_RUNS],
    }
    complete = outcome is not None and outcome.complete
    if outcome is not None and outcome.destinations:
        changes |= {"round": outcome.round, "replayed_total": outcome.redelivered}
        changes["destinations"] = with_states(before.destinations, outcome.destinations, run)
    elif outcome is not None and outcome.complete and (outcome.round or 0) > (before.round or 0):
        sent = (before.replayed_total or 0) + outcome.progress.replayed
        changes |= {"round": outcome.round, "replayed_total": sent if outcome.cursor is None else outcome.redelivered}
    # While a selection is being sent, maintenance keeps the files that it reads.
    changes["started_at"] = None if complete else before.started_at or ended.run.launched_at
    return status.model_copy(update=changes)


def _taken_up(stage: RunStage) -> list[EmitEvent]:
    """An Event about a cursor that another resource of the name has left."""
    outcome = replay_outcome(stage.ended.report) if stage.ended else None
    cursors = [outcome.cursor, *(one.cursor for one in outcome.destinations)] if outcome is not None else []
    if not any(cursor is not None and cursor.taken_up for cursor in cursors):
        return []
    words = (
        "this ReplayJob goes on behind the cursor that an earlier one of its name has left in the store; to begin "
        "elsewhere, set annotation messagestore.dev/reset-to"
    )
    return [EmitEvent("Normal", Reason.CURSOR_FOUND, words)]


def _desired_run(
    snapshot: ReplaySnapshot, status: ReplayJobStatus, blocker: RunError | None, *, pauses: bool
) -> DesiredRun:
    """A run that ends continues to its end; a continuous one stops for a changed spec or Secret, and for a reset."""
    job, current = snapshot.job, status.current_run
    abort = GONE if job.metadata.deletion_timestamp is not None else None
    run, stop = snapshot.run(current.name) if current else None, pauses
    if current is not None and run is not None and run.ref.continuous:
        # A destination that no try helps is tried again by another run.
        is_requested = _new_reset(job, status) or (new_request(job, status) is not None and bool(failing(job, status)))
        resets = blocker is None and snapshot.paused is None and is_requested
        stop = pauses or resets or is_outdated(snapshot, current, run, blocker)
    return DesiredRun(generation(job), wanted=not pauses, stop=stop, abort=abort, messages_per_second=rate(job))


def _beside_erasure(snapshot: ReplaySnapshot, status: ReplayJobStatus, erasure: RunError | None) -> datetime | None:
    """Until when the run in progress goes on beside an erasure; None if there is none of both, or it has to stop."""
    run = snapshot.run(status.current_run.name) if status.current_run else None
    if erasure is None or run is None or not run.ref.continuous:
        return None
    return erases_beside(snapshot, run)


def _next(
    snapshot: ReplaySnapshot,
    status: ReplayJobStatus,
    watched: RunStage,
    blocker: RunError | None,
    erasure: RunError | None,
) -> tuple[RunStage, datetime | None]:
    """The next step: the run goes on, a new run, or the time of the next."""
    job = snapshot.job
    if watched.ended is not None or (watched.current is not None and not watched.unlaunched):
        return watched.acted(), None
    deleted = job.metadata.deletion_timestamp is not None
    if blocker is not None or job.spec.suspend or deleted or not snapshot.can_run:
        return RunStage(), None
    current = watched.current
    if current is None:
        at = _due_at(snapshot, status)
        if at is None or at > snapshot.now:
            return RunStage(), at
        attempt = next_attempt(status.last_run, job, snapshot.defaults)
        current = reserve(snapshot, job, "replay", (status.run_number or 0) + 1, attempt)
    if erasure is not None:
        return RunStage(trouble=erasure, requeue_at=(snapshot.now + snapshot.defaults.poll_interval,)), None
    if (held := held_back(snapshot)) is not None and not (held.until is not None and job.spec.goes_on):
        return RunStage(trouble=held.error), held.until
    return start(snapshot, current, routes_of(job, status, snapshot.defaults, snapshot.now)), None


def _due_at(snapshot: ReplaySnapshot, status: ReplayJobStatus) -> datetime | None:
    """When the next run is due; None if only a change of the resource can start one."""
    job, last, now = snapshot.job, status.last_run, snapshot.now
    requested = _is_requested(job, status)
    # A run that broke off for another reason says nothing about destinations.
    by_destination = not broke_off_as_it_is(last, job) or is_of_destinations(last)
    anew = requested or _was_cancelled(last) or failed_before(job, status)
    # A run that goes on tries them again by itself.
    anew = anew or (job.spec.goes_on and not is_of_destinations(last))
    if failing(job, status) and by_destination and not anew:
        return due_at(job, status, snapshot.defaults, now)
    if last is not None and broke_off_as_it_is(last, job) and not requested:
        return retry_at(last, job, snapshot.defaults, now)
    # A selection that was suspended before all of it was sent.
    cut_short = last is not None and status.started_at is not None
    if requested or failed(last) or _was_cancelled(last) or cut_short or failed_before(job, status):
        return now
    trigger = job.spec.trigger
    assert trigger is not None
    if trigger.continuous is not None:
        # A run that ends at once must not be repeated at once.
        return next_start(last, snapshot.defaults.backoff_base, now)
    return next_time_of(trigger, job, status, now)


def _was_cancelled(last: FinishedRun | None) -> bool:
    return last is not None and last.state == "Cancelled"


def _is_requested(job: ReplayJob, status: ReplayJobStatus) -> bool:
    """Whether a run, or a reset, is asked for that no run has been made for."""
    return new_request(job, status) is not None or _new_reset(job, status)


def _new_reset(job: ReplayJob, status: ReplayJobStatus) -> bool:
    """Whether the cursor is to be moved, and no run has been made for that."""
    value = reset_requested(job)
    return value is not None and value != status.last_handled_reset


def _reserved(snapshot: ReplaySnapshot, status: ReplayJobStatus, stage: RunStage) -> ReplayJobStatus:
    """The status with its current run; a new one handles every request and scheduled time until now."""
    current, job = stage.current, snapshot.job
    changes: dict[str, object] = {"current_run": current}
    if job.spec.goes_on:
        # It pins no version of the table.
        changes["started_at"] = None
    if current is not None:
        if not job.spec.goes_on:
            changes["started_at"] = status.started_at or current.launched_at
        if (current.number or 0) > (status.run_number or 0):
            schedule = job.spec.trigger.schedule if job.spec.trigger else None
            changes |= {"run_number": current.number, **answered(schedule, job, status, snapshot.now)}
            changes["last_handled_reset"] = reset_requested(job)
    return status.model_copy(update=changes)
