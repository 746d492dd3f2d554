"""The status of a ReplayJob."""

from __future__ import annotations

from datetime import datetime

from messagestore_core.contract.run_report import ReplayOutcome, RunError, RunReport
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.replayjob import Destination
from messagestore_operator.api.replayjob_status import Progress, ReplayPhase, Selection
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import ConditionValue, conditions, generation, stuck, under_way, well
from messagestore_operator.status.facts import error_of
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.times import clock_time
from messagestore_operator.status.words import count


def replay_status(
    job: ReplayJob,
    now: datetime,
    report: RunReport | None = None,
    error: RunError | None = None,
    *,
    another_try: bool = False,
) -> ReplayJobStatus:
    """What came of a replay.

    Args:
        job: with its status so far, if it has one.
        now: the clock.
        report: of the run that ended last; None where none has since the status was written.
        error: what kept a run from starting.
        another_try: whether a run that failed is tried again.
    """
    before = job.status or ReplayJobStatus()
    outcome = report.outcome if report and isinstance(report.outcome, ReplayOutcome) else None
    phase = _phase(job, report, error, another_try=another_try)
    ended = clock_time(report.finished_at if report else now) if phase in ("Succeeded", "Failed") else None
    return ReplayJobStatus(
        observed_generation=generation(job),
        conditions=conditions(job, job.status, _condition_values(job, phase, report, error), now),
        run_number=before.run_number,
        phase=phase,
        selection=Selection(**outcome.selection.model_dump()) if outcome else before.selection,
        progress=Progress(**outcome.progress.model_dump()) if outcome else before.progress,
        destination=short_destination(job.spec.destination),
        round=outcome.round if outcome else before.round,
        redelivered=_redelivered(before, outcome),
        attempts=(before.attempts or 0) + (1 if report else 0),
        error=api_error(error_of(report, error)),
        started_at=before.started_at or (clock_time(report.started_at) if report else None),
        finished_at=before.finished_at or ended,
    )


def redelivered(job: ReplayJob, messages: int, rounds: int) -> str:
    """What a replay with a trigger has sent so far, as far as that is known."""
    where = short_destination(job.spec.destination)
    return f"{count(messages, 'message')} sent again to {where}; {count(rounds, 'selection')} so far"


def short_destination(destination: Destination) -> str:
    """Where a replay goes: the destination's kind, and the last part of its name."""
    if destination.stream is not None:
        return f"stream/{destination.stream.name}"
    if destination.kafka is not None:
        return f"kafka/{destination.kafka.topic}"
    assert destination.files is not None
    return f"files/{destination.files.uri.rstrip('/').rpartition('/')[2]}"


def _phase(job: ReplayJob, report: RunReport | None, error: RunError | None, *, another_try: bool) -> ReplayPhase:
    if error_of(report, error) is not None:
        # What never began has not failed: it waits for what keeps it.
        return "Pending" if another_try or report is None else "Failed"
    if report is None:
        return "Paused" if job.spec.suspend else "Pending"
    if report.state == "Running":
        return "Running"
    complete = isinstance(report.outcome, ReplayOutcome) and report.outcome.complete
    ended: ReplayPhase = "Succeeded" if job.spec.trigger is None else "Idle"
    return ended if complete else "Paused"


def _redelivered(before: ReplayJobStatus, outcome: ReplayOutcome | None) -> int | None:
    if outcome is not None and outcome.redelivered is not None:
        return outcome.redelivered
    if outcome is None or not outcome.round or outcome.round == before.round:
        return before.redelivered
    return (before.redelivered or 0) + outcome.progress.replayed


def _condition_values(
    job: ReplayJob, phase: ReplayPhase, report: RunReport | None, error: RunError | None
) -> list[ConditionValue]:
    found = error_of(report, error)
    if found is not None:
        if phase == "Failed":
            return [*stuck(found.reason, found.message), ConditionValue("Failed", "True", found.reason, found.message)]
        return under_way(found.reason, found.message)
    if phase == "Succeeded":
        assert report is not None
        assert isinstance(report.outcome, ReplayOutcome)
        outcome = report.outcome
        selection, progress = Selection(**outcome.selection.model_dump()), Progress(**outcome.progress.model_dump())
        return complete(job, selection, progress)
    if phase == "Idle":
        assert report is not None
        assert isinstance(report.outcome, ReplayOutcome)
        progress, number = Progress(**report.outcome.progress.model_dump()), report.outcome.round or 0
        sent = _redelivered(job.status or ReplayJobStatus(), report.outcome) or 0
        return [*well(Reason.REPLAYED, redelivered(job, sent, number)), *degraded(progress)]
    if phase == "Paused":
        return well(Reason.SUSPENDED, "nothing is sent while spec.suspend is true")
    if phase == "Running":
        return under_way(Reason.RUNNING, "messages are being sent")
    return under_way(Reason.PENDING, "no run has started yet")


def complete(job: ReplayJob, selection: Selection | None, progress: Progress | None) -> list[ConditionValue]:
    """The conditions of a replay that has come to its end."""
    reason, message = _summary(job, selection, progress)
    return [*well(reason, message), ConditionValue("Complete", "True", reason, message), *degraded(progress)]


def degraded(progress: Progress | None) -> list[ConditionValue]:
    """The condition of a replay that went on without messages that it couldn't send."""
    if progress is None or not progress.failed:
        return []
    shown = ", ".join(map(str, progress.first_failed_positions))
    which = f"; the first are at global positions {shown}" if shown else ""
    verb = "was" if progress.failed == 1 else "were"
    difference = "it differs" if progress.failed == 1 else "they differ"
    words = f"{count(progress.failed, 'message')} {verb} not sent: {difference} from what was stored{which}"
    return [ConditionValue("Degraded", "True", Reason.MESSAGES_BROKEN, words)]


def _summary(job: ReplayJob, selection: Selection | None, progress: Progress | None) -> tuple[Reason, str]:
    what = "dead letter" if job.spec.origin == "DeadLetters" else "message"
    if job.spec.mode == "DryRun":
        selected = selection.messages if selection else 0
        return Reason.PREVIEWED, f"{count(selected, what)} would be replayed; mode is DryRun"
    sent, failed = (progress.replayed, progress.failed) if progress else (0, 0)
    replayed = f"{count(sent, what)} replayed to {short_destination(job.spec.destination)}{_taken(progress)}"
    if progress and progress.erased:
        replayed += f", {progress.erased} erased since they were selected"
    if failed:
        return Reason.MESSAGES_BROKEN, f"{replayed}, {failed} not sent"
    return Reason.REPLAYED, replayed


def _taken(progress: Progress | None) -> str:
    """What a stream made of dead letters, without what did not happen."""
    if progress is None or progress.stored is None:
        return ""
    again, duplicates = progress.dead_lettered or 0, progress.duplicates or 0
    parts = [
        (progress.stored, f"{progress.stored} stored"),
        (again, f"{again} set aside again"),
        (duplicates, count(duplicates, "duplicate")),
    ]
    became = ", ".join(words for number, words in parts if number)
    return f": {became}" if became else ""
