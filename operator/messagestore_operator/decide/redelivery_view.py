"""What people and tools read of a replay with a trigger: its phase, its conditions, its next run."""

from __future__ import annotations

from datetime import datetime

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api import ReplayJobStatus
from messagestore_operator.api.replayjob_status import ReplayPhase
from messagestore_operator.decide.run_lifecycle import RunStage
from messagestore_operator.decide.snapshot import ReplaySnapshot
from messagestore_operator.decide.trigger import failed, failed_as_it_is
from messagestore_operator.reasons import TERMINAL, Reason
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    after_failure,
    conditions,
    generation,
    under_way,
    well,
)
from messagestore_operator.status.replay import degraded, redelivered, short_destination
from messagestore_operator.status.times import clock_time


def viewed(
    snapshot: ReplaySnapshot,
    before: ReplayJobStatus,
    status: ReplayJobStatus,
    stage: RunStage,
    blocker: RunError | None,
    wait: datetime | None,
) -> ReplayJobStatus:
    """The status with its phase and conditions.

    Args:
        snapshot: what there is.
        before: the status so far.
        status: with all that is remembered.
        stage: where the current run is.
        blocker: why no run can be made.
        wait: when the next run is due.
    """
    job = snapshot.job
    return status.model_copy(
        update={
            "observed_generation": generation(job),
            "conditions": conditions(
                job, before, _condition_values(snapshot, status, stage, blocker, wait), snapshot.now
            ),
            "phase": _phase(snapshot, status, stage, blocker),
            "destination": short_destination(job.spec.destination),
            "next_run_time": clock_time(wait),
        }
    )


def _condition_values(
    snapshot: ReplaySnapshot, status: ReplayJobStatus, stage: RunStage, blocker: RunError | None, wait: datetime | None
) -> list[ConditionValue]:
    job, current, last = snapshot.job, stage.current, status.last_run
    if job.metadata.deletion_timestamp is not None:
        return under_way(Reason.DELETING, "the ReplayJob is being deleted")
    if blocker is not None:
        return after_error(blocker)
    if current is not None and current.ending is not None:
        return under_way(current.ending.reason, f"run {current.name} is being ended: {current.ending.message}")
    if job.spec.suspend:
        return well(Reason.SUSPENDED, "nothing is sent while spec.suspend is true")
    if stage.trouble is not None:
        return under_way(stage.trouble.reason, stage.trouble.message)
    if last is not None and failed_as_it_is(last, job):
        return after_failure(last, current.attempt if current else None, wait)
    if status.round is not None or last is not None:
        sent = redelivered(job, status.redelivered or 0, status.round or 0)
        return [*well(Reason.REPLAYED, sent), *degraded(status.progress)]
    if current is not None:
        return under_way(Reason.PENDING, f"run {current.name} is being started")
    return well(Reason.WAITING, "no run has started yet")


def _phase(snapshot: ReplaySnapshot, status: ReplayJobStatus, stage: RunStage, blocker: RunError | None) -> ReplayPhase:
    job, current, last = snapshot.job, stage.current, status.last_run
    if blocker is not None:
        return "Stalled" if blocker.reason in TERMINAL else "Failing"
    if current is not None and current.launched_at is not None:
        return "Failing" if stage.trouble is not None else "Running"
    if job.spec.suspend:
        return "Paused"
    if last is not None and failed(last) and failed_as_it_is(last, job):
        return "Stalled" if last.error is not None and last.error.reason in TERMINAL else "Failing"
    return "Idle" if current is None and last is not None else "Pending"
