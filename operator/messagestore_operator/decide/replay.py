"""Decides about a ReplayJob: it has runs until its whole selection is sent, or until it has finally failed.

docs/operator.md#phases shows its states, ``blockers.REPLAY`` what keeps it from a run.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from messagestore_core.clock import shifted
from messagestore_core.contract.base import RunError
from messagestore_operator.api import ReplayJobStatus
from messagestore_operator.decide.actions import Action, Decision, DeleteResource, EmitEvent, decision
from messagestore_operator.decide.blockers import REPLAY, first, held_back, refused
from messagestore_operator.decide.documents import rate
from messagestore_operator.decide.events import condition_events, run_events
from messagestore_operator.decide.garbage_collection import cleanup
from messagestore_operator.decide.lasting import Lasting, lasting
from messagestore_operator.decide.redelivery import decide_redelivery
from messagestore_operator.decide.replay_runs import (
    GONE,
    beginning_of,
    erasure_of,
    is_complete,
    recorded,
    sends,
    start,
    with_pause,
)
from messagestore_operator.decide.run_lifecycle import NO_RUN, DesiredRun, RunStage, follow, reserve
from messagestore_operator.decide.snapshot import ReplaySnapshot
from messagestore_operator.decide.trigger import next_try
from messagestore_operator.status.conditions import TERMINAL, condition_of, generation
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import ENDED, ReplayOutlook, has_ended, with_view
from messagestore_operator.status.runs import broke_off


@dataclass(frozen=True)
class ReplayStage:
    """The stage of a replay: complete, given up, blocked, with a run, or waiting until a time."""

    stage: RunStage = NO_RUN
    blocker: RunError | None = None
    given_up: RunError | None = None
    complete: bool = False
    wait: datetime | None = None


def decide_replay(snapshot: ReplaySnapshot) -> Decision:
    """Decide about a replay."""
    job, before = snapshot.job, snapshot.job.status or ReplayJobStatus()
    if job.spec.trigger is not None:
        return decide_redelivery(snapshot, before)
    if has_ended(job):
        return _after_the_end(snapshot, before)
    erasure = erasure_of(snapshot)
    pauses = job.spec.suspend or erasure is not None
    paused = with_pause(snapshot, before, pauses=pauses)
    watched = follow(snapshot, before.current_run, _desired_run(snapshot, paused, pauses))
    status = recorded(paused, watched)
    replay = _stage(snapshot, status, watched, erasure)
    current = replay.stage.current
    number = max(status.run_number or 0, current.number or 0) if current else status.run_number
    status = status.model_copy(update={"current_run": current, "run_number": number})
    pausing = pauses or sends(replay.stage, before)
    lasts = Lasting()
    if not pausing:
        ended = watched.ended is not None
        lasts = lasting(snapshot, before.lasting_failure, replay.blocker, status.error, ended=ended)
    status = status.model_copy(update={"lasting_failure": lasts.failure})
    outlook = ReplayOutlook(
        replay.blocker,
        replay.stage.trouble or erasure,
        replay.wait,
        lasting=lasts.error,
        complete=replay.complete,
        given_up=replay.given_up,
    )
    status = with_view(job, before, status, outlook, snapshot.now)
    actions: list[Action] = [*run_events(before.current_run, watched), *condition_events(before, status)]
    actions += [*_end_event(status), *watched.actions, *replay.stage.actions]
    actions += cleanup(snapshot, [before.current_run], [status.current_run])
    at_once = snapshot.now if watched.ended or status.phase in ENDED else None
    requeue_at = [*watched.requeue_at, *replay.stage.requeue_at, replay.wait, lasts.stalls_at, at_once]
    return decision(job, job.status, status, actions, requeue_at)


def _desired_run(snapshot: ReplaySnapshot, status: ReplayJobStatus, pauses: bool) -> DesiredRun:
    job, abort = snapshot.job, None
    if job.metadata.deletion_timestamp is not None:
        abort = GONE
    elif (deadline := _deadline(snapshot, status)) is not None and deadline <= snapshot.now:
        abort = _too_long(snapshot)
    return DesiredRun(generation(job), wanted=not pauses, stop=pauses, abort=abort, messages_per_second=rate(job))


def _stage(
    snapshot: ReplaySnapshot, status: ReplayJobStatus, watched: RunStage, erasure: RunError | None
) -> ReplayStage:
    """Find the stage of the replay, and launch its run if one is due."""
    job, ended = snapshot.job, watched.ended
    if ended is not None and is_complete(ended):
        return ReplayStage(complete=True)
    if watched.current is not None and not watched.unlaunched:
        deadline = _deadline(snapshot, status)
        # A run that is past it is being ended, and looked at like any other.
        wait = deadline if deadline is not None and deadline > snapshot.now else None
        return ReplayStage(RunStage(watched.current, trouble=watched.trouble, live=watched.live), wait=wait)
    if (given_up := _given_up(snapshot, status)) is not None:
        return ReplayStage(given_up=given_up)
    if job.spec.suspend or job.metadata.deletion_timestamp is not None or not snapshot.can_run or ended is not None:
        return ReplayStage()
    if (blocker := first(REPLAY, snapshot)) is not None:
        return ReplayStage(blocker=blocker)
    if erasure is not None:
        return ReplayStage(blocker=erasure, wait=snapshot.now + snapshot.defaults.poll_interval)
    if status.selection is None and (beginning := beginning_of(snapshot)) is not None:
        return ReplayStage(blocker=beginning, wait=snapshot.now + snapshot.defaults.poll_interval)
    if (retry := _retry_at(snapshot, status)) is not None and watched.current is None:
        return ReplayStage(wait=retry)
    if (held := held_back(snapshot)) is not None:
        return ReplayStage(blocker=held.error, wait=held.until)
    return ReplayStage(_launched(snapshot, status, watched), wait=_deadline(snapshot, status))


def _given_up(snapshot: ReplaySnapshot, status: ReplayJobStatus) -> RunError | None:
    """Why there is no further try. A replay's spec can't be changed, so a refused replay stays refused."""
    job, error = snapshot.job, status.error
    if (refusal := refused(job, snapshot)) is not None:
        return refusal
    deadline = _deadline(snapshot, status)
    if deadline is not None and deadline <= snapshot.now:
        return _too_long(snapshot)
    if error is None or status.failures == 0:
        return None
    if error.reason in TERMINAL or error.reason == Reason.DEADLINE_EXCEEDED:
        return RunError(reason=error.reason, message=error.message)
    if status.failures <= job.spec.backoff_limit:
        return None
    tries = f"{status.failures} tries failed, the last: " if status.failures > 1 else ""
    return RunError(reason=error.reason, message=f"{tries}{error.message}")


def _launched(snapshot: ReplaySnapshot, status: ReplayJobStatus, watched: RunStage) -> RunStage:
    number = (status.run_number or 0) + 1
    last = status.last_run
    attempt = last.attempt + 1 if last is not None and broke_off(last) else 1
    return start(snapshot, watched.current or reserve(snapshot, snapshot.job, "replay", number, attempt))


def _retry_at(snapshot: ReplaySnapshot, status: ReplayJobStatus) -> datetime | None:
    """When a replay whose last run broke off is retried; None: now."""
    last = status.last_run
    if last is None or not broke_off(last) or last.finished_at is None:
        return None
    at = next_try(last, snapshot.job, snapshot.defaults, snapshot.now)
    return at if at > snapshot.now else None


def _deadline(snapshot: ReplaySnapshot, status: ReplayJobStatus) -> datetime | None:
    """By when the replay must have ended; its pauses don't count."""
    spec, begun = snapshot.job.spec, status.started_at
    if spec.active_deadline is None or begun is None or status.paused_at is not None:
        return None
    return shifted(begun.datetime, spec.active_deadline.timedelta + timedelta(seconds=status.paused_seconds))


def _too_long(snapshot: ReplaySnapshot) -> RunError:
    words = f"it took longer than spec.activeDeadline, {snapshot.job.spec.active_deadline}"
    return RunError(reason=Reason.DEADLINE_EXCEEDED, message=words)


def _end_event(status: ReplayJobStatus) -> list[Action]:
    if status.phase not in ENDED:
        return []
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    well = status.phase == "Succeeded" and condition_of(status, "Degraded") is None
    return [EmitEvent("Normal" if well else "Warning", ready.reason, ready.message)]


def _after_the_end(snapshot: ReplaySnapshot, before: ReplayJobStatus) -> Decision:
    """The decision after the end: the resource is deleted after ``ttlAfterFinished``."""
    job, now = snapshot.job, generation(snapshot.job)
    seen = [condition.model_copy(update={"observed_generation": now}) for condition in before.conditions]
    status = before.model_copy(update={"observed_generation": now, "conditions": tuple(seen)})
    actions: list[Action] = [*cleanup(snapshot, [before.current_run], [status.current_run])]
    ttl = job.spec.ttl_after_finished
    if ttl is None or before.finished_at is None or job.metadata.deletion_timestamp is not None:
        return decision(job, job.status, status, actions)
    end = shifted(before.finished_at.datetime, ttl.timedelta)
    if end <= snapshot.now:
        return decision(job, job.status, status, [*actions, DeleteResource(job.metadata.uid)])
    return decision(job, job.status, status, actions, [end])
