"""Events of runs and conditions, from the status before and after.

Their texts contain no run's name and no counts, which the status has: so Kubernetes counts equal Events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from messagestore_operator.api.status import BaseStatus, CurrentRun
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.run_lifecycle import EndedRun, RunStage
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import condition_of

_EVENT_REASONS: dict[str, bool] = {
    Reason.CONFIG_MISSING: True,
    Reason.DELETION_BLOCKED: True,
    Reason.FOLDERS_OVERLAP: True,
    Reason.IMAGE_PULL_FAILED: True,
    Reason.INVALID_SPEC: True,
    Reason.NOT_ALLOWED: True,
    Reason.NOT_SUPPORTED: True,
    Reason.POD_FAILED: True,
    Reason.PREDICATE_REFUSED: True,
    Reason.SECRET_MISSING: True,
    Reason.SOURCE_NOT_FOUND: False,
    Reason.SPARK_OPERATOR_MISSING: True,
    Reason.STREAM_MISSING: True,
    Reason.TABLE_BUSY: False,
    Reason.TABLE_RELEASED: False,
    Reason.TOO_MANY_STREAMS: True,
    Reason.UNSCHEDULABLE: True,
    Reason.WAITING_FOR_DRIVER: True,
    Reason.WRONG_APPROVAL: True,
}
"""Reasons of condition Ready that cause an Event when they are new, with its type."""


def run_events(before: CurrentRun | None, stage: RunStage) -> Iterator[EmitEvent]:
    """An Event when a run starts, is asked to stop, or ends."""
    run = stage.current or (stage.ended.run if stage.ended else None)
    if run is None:
        return
    if run.launched_at is not None and (before is None or before.launched_at is None):
        yield EmitEvent("Normal", Reason.RUN_STARTED, f"{run.kind} run started")
    if run.stop_requested_at is not None and (before is None or before.stop_requested_at is None):
        yield EmitEvent("Normal", Reason.RUN_STOPPED, f"{run.kind} run stops after its batch")
    if stage.ended is not None:
        yield replace(_ending(stage.ended), ended=stage.ended)


def condition_events(before: BaseStatus | None, after: BaseStatus) -> Iterator[EmitEvent]:
    """An Event when condition Ready gets a reason that needs attention."""
    known, ready = condition_of(before, "Ready"), condition_of(after, "Ready")
    if ready is None or ready.reason not in _EVENT_REASONS or (known is not None and known.reason == ready.reason):
        return
    yield EmitEvent("Warning" if _EVENT_REASONS[ready.reason] else "Normal", ready.reason, ready.message)


def _ending(ended: EndedRun) -> EmitEvent:
    which = f"{ended.run.kind} run"
    if ended.state == "Succeeded":
        return EmitEvent("Normal", Reason.RUN_FINISHED, f"{which} succeeded")
    if ended.error is None:
        return EmitEvent("Warning", Reason.RUN_FAILED, f"{which} failed")
    if ended.state == "Cancelled":
        return EmitEvent("Normal", ended.error.reason, f"{which} was ended: {ended.error.message}")
    return EmitEvent("Warning", ended.error.reason, f"{which} failed: {ended.error.message}")
