"""What people and tools read of a stream: its phase, its conditions, its next run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from messagestore_core.contract.run_report import IngestOutcome, RunError
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import LifecycleStatus, StreamPhase
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.run_lifecycle import RunStage
from messagestore_operator.decide.snapshot import StreamSnapshot
from messagestore_operator.decide.trigger import failed, failed_as_it_is, is_final
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
from messagestore_operator.status.stream import stored
from messagestore_operator.status.times import clock_time
from messagestore_operator.translate.annotations import RUN_REQUESTED

_PATIENCE = timedelta(seconds=15)
"""How long a store that is well waits for its table, or for room, before that is said: it is no matter for a while."""


def viewed(
    snapshot: StreamSnapshot,
    before: MessageStreamStatus,
    status: MessageStreamStatus,
    stage: RunStage,
    blocker: RunError | None,
    wait: datetime | None,
) -> MessageStreamStatus:
    """The status with its phase and conditions.

    Args:
        snapshot: what there is.
        before: the status so far.
        status: with all that is remembered.
        stage: where the current run is.
        blocker: why no run can be made.
        wait: when the next run is due.
    """
    values = _condition_values(snapshot, status, stage, blocker, wait)
    return status.model_copy(
        update={
            "observed_generation": generation(snapshot.stream),
            "conditions": conditions(snapshot.stream, before, values, snapshot.now),
            "phase": _phase(snapshot, status, stage, blocker),
            "next_run_time": clock_time(wait),
        }
    )


def dead_letters_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """That records were set aside."""
    known = before.totals.dead_lettered if before.totals else 0
    now = after.totals.dead_lettered if after.totals else 0
    if now > known:
        words = "records were set aside as dead letters; status.totals.deadLettered counts them"
        yield EmitEvent("Warning", Reason.DEAD_LETTERS, words)


def loss_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """That records were gone before they were read."""
    known = before.loss.records or 0 if before.loss else 0
    if after.loss is not None and (after.loss.records or 0) > known:
        words = f"records of topic {after.loss.topic} were lost before they were read; status.loss has their offsets"
        yield EmitEvent("Warning", Reason.RECORDS_LOST, words)


def sequences_event(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """That sequences wait for members for longer than they are to."""
    known = before.sequences.overdue if before.sequences else 0
    if after.sequences is not None and after.sequences.overdue > known:
        words = "message sequences are incomplete after spec.sequences.timeout; status.sequences.overdue counts them"
        yield EmitEvent("Warning", Reason.SEQUENCES_OVERDUE, words)


def lifecycle_events(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """That updates were set aside, and that messages have no retry left."""
    if after.lifecycle is None:
        return
    known, now = before.lifecycle or LifecycleStatus(), after.lifecycle
    if now.dead_lettered > known.dead_lettered:
        words = "status updates were set aside as dead letters; status.lifecycle.deadLettered counts them"
        yield EmitEvent("Warning", Reason.DEAD_LETTERS, words)
    if now.exhausted > known.exhausted:
        words = "messages failed and have no retry left; status.lifecycle.exhausted counts them"
        yield EmitEvent("Warning", Reason.RETRIES_EXHAUSTED, words)


def _condition_values(
    snapshot: StreamSnapshot,
    status: MessageStreamStatus,
    stage: RunStage,
    blocker: RunError | None,
    wait: datetime | None,
) -> list[ConditionValue]:
    if blocker is not None:
        return after_error(blocker)
    if (said := _of_current(snapshot, status, stage)) is not None:
        return said
    last = status.last_run
    if last is not None and failed(last) and not _works(stage):
        if not failed_as_it_is(last, snapshot.stream):
            words = "the last run failed; the spec has changed since, so a new run starts"
            return under_way(Reason.PENDING, words)
        return after_failure(last, stage.current.attempt if stage.current else None, wait)
    if status.totals is None:
        return _of_beginning(snapshot, stage, wait)
    return well(Reason.INGESTING, stored(status))


def _of_current(snapshot: StreamSnapshot, status: MessageStreamStatus, stage: RunStage) -> list[ConditionValue] | None:
    """What the current run says, where that is more than that it goes on."""
    current = stage.current
    if snapshot.stream.spec.suspend:
        if current is None:
            return well(Reason.SUSPENDED, "no run starts while spec.suspend is true")
        return under_way(
            Reason.SUSPENDED, f"run {current.name} runs to its end; no other run starts while spec.suspend is true"
        )
    if current is not None and current.ending is not None:
        return under_way(current.ending.reason, f"run {current.name} is being ended: {current.ending.message}")
    if snapshot.paused is not None and stage.trouble is None:
        if current is None:
            return well(Reason.PAUSED, snapshot.paused)
        goes_on = f"run {current.name} continues; no other run starts: {snapshot.paused}"
        return (under_way if status.totals is None else well)(Reason.PAUSED, goes_on)
    if stage.trouble is None or current is None:
        return None
    waited = snapshot.now - current.requested_at.datetime if current.requested_at else _PATIENCE
    is_well = status.totals is not None and not failed(status.last_run)
    if stage.trouble.reason in (Reason.TABLE_BUSY, Reason.WAITING_FOR_ROOM) and is_well and waited < _PATIENCE:
        return None
    return under_way(stage.trouble.reason, stage.trouble.message)


def _of_beginning(snapshot: StreamSnapshot, stage: RunStage, wait: datetime | None) -> list[ConditionValue]:
    if stage.current is not None and stage.current.state == "Running":
        return under_way(Reason.RUNNING, f"run {stage.current.name} takes in what has arrived")
    if stage.current is not None:
        return under_way(Reason.PENDING, f"run {stage.current.name} is being started")
    if wait is not None:
        return well(Reason.WAITING, f"the first run is at {clock_time(wait)}")
    if snapshot.stream.spec.trigger.manual is not None:
        return well(Reason.WAITING, f"a run starts when annotation {RUN_REQUESTED} changes")
    return under_way(Reason.PENDING, "nothing has been taken in yet")


def _phase(
    snapshot: StreamSnapshot, status: MessageStreamStatus, stage: RunStage, blocker: RunError | None
) -> StreamPhase:
    last = status.last_run
    if blocker is not None:
        return "Stalled" if blocker.reason in TERMINAL else "Failing"
    if stage.current is not None and stage.current.launched_at is not None:
        return "Failing" if stage.trouble is not None else "Running"
    if snapshot.stream.spec.suspend:
        return "Suspended"
    if last is not None and failed_as_it_is(last, snapshot.stream):
        return "Stalled" if is_final(last, snapshot.stream) else "Failing"
    if stage.current is not None or last is None:
        return "Pending"
    return "Idle"


def _works(stage: RunStage) -> bool:
    """Whether a run under way has taken something in since the last one failed."""
    outcome = stage.live.outcome if stage.live else None
    return isinstance(outcome, IngestOutcome) and outcome.batches > 0
