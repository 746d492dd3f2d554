"""Events of runs and conditions, from the status before and after.

Their texts contain no run's name and no counts, which the status has: so Kubernetes counts equal Events.
"""

from collections.abc import Iterator, Sequence

from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import LifecycleStatus
from messagestore_operator.api.status import BaseStatus, CurrentRun, FinishedRun
from messagestore_operator.decide.actions import EmitEvent, LogRun
from messagestore_operator.decide.run_lifecycle import EndedRun, RunStage
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason

_EVENT_REASONS: dict[str, bool] = {
    Reason.CONFIG_MISSING: True,
    Reason.DELETION_BLOCKED: True,
    Reason.EXECUTORS_REFUSED: True,
    Reason.FOLDERS_OVERLAP: True,
    Reason.IMAGE_PULL_FAILED: True,
    Failure.INVALID_SPEC: True,
    Reason.NOT_ALLOWED: True,
    Reason.NOT_SUPPORTED: True,
    Reason.POD_FAILED: True,
    Failure.PREDICATE_REFUSED: True,
    Reason.SECRET_MISSING: True,
    Reason.SOURCE_NOT_FOUND: False,
    Reason.SPARK_OPERATOR_MISSING: True,
    Reason.STREAM_MISSING: True,
    Failure.TABLE_BUSY: False,
    Reason.TABLE_RELEASED: False,
    Reason.TOO_MANY_STREAMS: True,
    Reason.UNSCHEDULABLE: True,
    Reason.WAITING_FOR_DRIVER: True,
    Reason.WRONG_APPROVAL: True,
}
"""Reasons of condition Ready that cause an Event when they are new, with its type."""


def run_events(
    before: CurrentRun | None, stage: RunStage, last: FinishedRun | None = None
) -> Iterator[EmitEvent | LogRun]:
    """An Event when a run starts, is asked to stop, or ends, and a line of the log about its end.

    An ingest that succeeds after none that failed is no news: streams have most of the runs, and the status tells it.

    Args:
        last: the run before, of an ingest.
    """
    run = stage.current or (stage.ended.run if stage.ended else None)
    if run is None:
        return
    routine = run.kind == "ingest"
    launched = run.launched_at is not None and (before is None or before.launched_at is None)
    # The end of a short ingest says enough.
    if launched and not (routine and stage.ended):
        yield EmitEvent("Normal", Reason.RUN_STARTED, f"{run.kind} run started", routine)
    if run.stop_requested_at is not None and (before is None or before.stop_requested_at is None):
        yield EmitEvent("Normal", Failure.RUN_STOPPED, f"{run.kind} run stops after its batch")
    if stage.ended is not None:
        yield LogRun(stage.ended)
        if not routine or stage.ended.state != "Succeeded" or (last is not None and last.state != "Succeeded"):
            yield _ending(stage.ended)


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
        return EmitEvent("Warning", Failure.RUN_FAILED, f"{which} failed")
    if ended.state == "Cancelled":
        return EmitEvent("Normal", ended.error.reason, f"{which} was ended: {ended.error.message}")
    return EmitEvent("Warning", ended.error.reason, f"{which} failed: {ended.error.message}")


def stream_events(before: MessageStreamStatus, after: MessageStreamStatus) -> Iterator[EmitEvent]:
    """Warnings of a stream, when counts in its status grow."""
    counted = zip(_counted(before), _counted(after, _grown_reasons(before, after)), strict=True)
    for (known, _, _), (now, reason, words) in counted:
        if now > known:
            yield EmitEvent("Warning", reason, words)


def _counted(status: MessageStreamStatus, grown: Sequence[str] = ()) -> list[tuple[int, Reason, str]]:
    """Counts in a status with the warnings if they grow; ``grown`` are the reasons with more dead letters."""
    totals, loss, sequences = status.totals, status.loss, status.sequences
    lifecycle = status.lifecycle or LifecycleStatus()
    where = f": {', '.join(grown)}; status.table.deadLettersByReason" if grown else "; status.totals.deadLettered"
    return [
        (
            totals.dead_lettered if totals else 0,
            Reason.DEAD_LETTERS,
            f"records were set aside as dead letters{where} counts them",
        ),
        (
            lifecycle.dead_lettered,
            Reason.DEAD_LETTERS,
            "status updates were set aside as dead letters; status.lifecycle.deadLettered counts them",
        ),
        (
            lifecycle.exhausted,
            Reason.RETRIES_EXHAUSTED,
            "messages failed and have no retry left; status.lifecycle.exhausted counts them",
        ),
        (
            loss.records or 0 if loss else 0,
            Reason.RECORDS_LOST,
            f"records of topic {loss.topic if loss else ''} were lost before they were read; status.loss has their "
            "offsets",
        ),
        (
            sequences.overdue if sequences else 0,
            Reason.SEQUENCES_OVERDUE,
            "message sequences are incomplete after spec.sequences.timeout; status.sequences.overdue counts them",
        ),
    ]


def _grown_reasons(before: MessageStreamStatus, after: MessageStreamStatus) -> list[str]:
    """The reasons with more dead letters than before, by name; none if it is not known how many there were."""
    if after.table is None or (before.table and before.table.dead_letters and not before.table.dead_letters_by_reason):
        return []
    known = {one.reason: one.count for one in before.table.dead_letters_by_reason} if before.table else {}
    return sorted(one.reason for one in after.table.dead_letters_by_reason if one.count > known.get(one.reason, 0))
