"""Records a replay's runs and pauses in its status."""

from __future__ import annotations

from messagestore_operator.api import ReplayJobStatus
from messagestore_operator.decide.run_lifecycle import EndedRun, RunStage
from messagestore_operator.decide.snapshot import ReplaySnapshot
from messagestore_operator.status.replay import replay_outcome, with_progress
from messagestore_operator.status.runs import api_error, ended_run
from messagestore_operator.status.times import clock_time


def recorded(before: ReplayJobStatus, stage: RunStage) -> ReplayJobStatus:
    """The status with the progress of the run in progress, or the outcome of the ended one."""
    ended = stage.ended
    if ended is None:
        begun = before.started_at or (stage.current.launched_at if stage.current else None)
        return with_progress(before, stage.live).model_copy(update={"started_at": begun})
    status = with_progress(before, ended.report)
    failed = ended.state == "Failed"
    return status.model_copy(
        update={
            "current_run": None,
            "last_run": ended_run(ended.run, ended.state, ended.at, ended.error),
            "attempts": (before.attempts or 0) + 1,
            "failures": before.failures + failed,
            "error": api_error(ended.error) if failed else None,
            "started_at": before.started_at or ended.run.launched_at,
        }
    )


def sends(stage: RunStage, before: ReplayJobStatus) -> bool:
    """Whether the run in progress has sent messages since the status was written."""
    outcome = replay_outcome(stage.live)
    known = before.progress.replayed if before.progress else 0
    return outcome is not None and outcome.progress.replayed > known


def is_complete(ended: EndedRun) -> bool:
    """Whether the run reports that the whole selection was sent."""
    outcome = replay_outcome(ended.report)
    return ended.state == "Succeeded" and outcome is not None and outcome.complete


def with_pause(snapshot: ReplaySnapshot, before: ReplayJobStatus, *, pauses: bool) -> ReplayJobStatus:
    """The status with the time of pauses, which doesn't count towards the deadline."""
    now, since = snapshot.now, before.paused_at
    if pauses:
        begun = before.started_at is not None and since is None
        return before.model_copy(update={"paused_at": clock_time(now)}) if begun else before
    if since is None:
        return before
    paused = before.paused_seconds + max(int((now - since.datetime).total_seconds()), 0)
    return before.model_copy(update={"paused_at": None, "paused_seconds": paused})
