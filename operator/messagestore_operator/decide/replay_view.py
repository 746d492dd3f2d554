"""What people and tools read of a replay: its phase and its conditions, those of a batch Job among them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob_status import ReplayPhase
from messagestore_operator.decide.run_lifecycle import NO_RUN, RunStage
from messagestore_operator.decide.snapshot import ReplaySnapshot
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    conditions,
    generation,
    stuck,
    under_way,
    well,
)
from messagestore_operator.status.replay import complete, short_destination
from messagestore_operator.status.times import clock_time

ENDED = ("Succeeded", "Failed", "Cancelled")


def has_ended(job: ReplayJob) -> bool:
    """Whether nothing more is read for a replay."""
    return job.status is not None and (job.status.phase in ENDED or job.status.finished_at is not None)


@dataclass(frozen=True)
class ReplayStage:
    """Where a replay is: complete, given up, kept from going on, with a run, or waiting until a time."""

    stage: RunStage = NO_RUN
    blocker: RunError | None = None
    given_up: RunError | None = None
    complete: bool = False
    wait: datetime | None = None


def viewed(
    snapshot: ReplaySnapshot, before: ReplayJobStatus, status: ReplayJobStatus, replay: ReplayStage
) -> ReplayJobStatus:
    """The status with its phase and conditions."""
    job = snapshot.job
    phase = _phase(snapshot, status, replay)
    values = _condition_values(snapshot, status, replay, phase)
    ended = clock_time(snapshot.now) if phase in ENDED else None
    return status.model_copy(
        update={
            "observed_generation": generation(job),
            "conditions": conditions(job, before, values, snapshot.now),
            "phase": phase,
            "destination": short_destination(job.spec.destination),
            "finished_at": status.finished_at or ended,
        }
    )


def _phase(snapshot: ReplaySnapshot, status: ReplayJobStatus, replay: ReplayStage) -> ReplayPhase:
    job, current = snapshot.job, replay.stage.current
    if replay.complete:
        return "Succeeded"
    if replay.given_up is not None:
        return "Failed"
    if job.metadata.deletion_timestamp is not None and current is None:
        return "Cancelled"
    if current is not None and current.launched_at is not None:
        return "Previewing" if status.selection is None or job.spec.mode == "DryRun" else "Running"
    return "Paused" if job.spec.suspend else "Pending"


def _condition_values(
    snapshot: ReplaySnapshot, status: ReplayJobStatus, replay: ReplayStage, phase: ReplayPhase
) -> list[ConditionValue]:
    if phase == "Succeeded":
        return complete(snapshot.job, status.selection, status.progress)
    if replay.given_up is not None:
        error = replay.given_up
        return [*stuck(error.reason, error.message), ConditionValue("Failed", "True", error.reason, error.message)]
    if phase == "Cancelled":
        return [ConditionValue("Ready", "False", Reason.DELETING, "the ReplayJob is being deleted")]
    if replay.blocker is not None:
        return after_error(replay.blocker)
    return _of_work(snapshot, status, replay, phase)


def _of_work(
    snapshot: ReplaySnapshot, status: ReplayJobStatus, replay: ReplayStage, phase: ReplayPhase
) -> list[ConditionValue]:
    """A replay that goes on, pauses, or is tried again."""
    current, trouble = replay.stage.current, replay.stage.trouble
    if phase == "Paused":
        return well(Reason.SUSPENDED, "nothing is sent while spec.suspend is true")
    if current is not None and current.ending is not None:
        return under_way(current.ending.reason, f"run {current.name} is being ended: {current.ending.message}")
    if trouble is not None:
        return under_way(trouble.reason, trouble.message)
    if snapshot.job.spec.suspend:
        return under_way(Reason.SUSPENDED, "it pauses after the batch under way")
    if status.error is not None and current is None:
        when = f"; try {status.failures + 1} is at {clock_time(replay.wait)}" if replay.wait else ""
        return under_way(status.error.reason, f"{status.error.message}{when}")
    if phase == "Running":
        return under_way(Reason.RUNNING, "messages are being sent")
    if phase == "Previewing":
        return under_way(Reason.RUNNING, "the selection is being counted")
    if current is not None:
        return under_way(Reason.PENDING, f"run {current.name} is being started")
    return under_way(Reason.PENDING, "no run has been made yet")
