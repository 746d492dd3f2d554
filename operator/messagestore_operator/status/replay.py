"""The figures in the status of a ReplayJob."""

from __future__ import annotations

from messagestore_core.contract.run_report import ReplayOutcome, RunReport
from messagestore_operator.api import ReplayJobStatus
from messagestore_operator.api.replayjob import Destination
from messagestore_operator.api.replayjob_status import Progress, Selection


def with_progress(before: ReplayJobStatus, report: RunReport | None) -> ReplayJobStatus:
    """A status with the figures of a report, of a run in progress or an ended one."""
    outcome = replay_outcome(report)
    if outcome is None:
        return before
    selection, progress = Selection(**outcome.selection.model_dump()), Progress(**outcome.progress.model_dump())
    return before.model_copy(update={"selection": selection, "progress": progress})


def replay_outcome(report: RunReport | None) -> ReplayOutcome | None:
    """The replay's outcome in a report."""
    return report.outcome if report is not None and isinstance(report.outcome, ReplayOutcome) else None


def short_destination(destination: Destination) -> str:
    """A destination in short: its kind and the last part of its name."""
    if destination.stream is not None:
        return f"stream/{destination.stream.name}"
    if destination.kafka is not None:
        return f"kafka/{destination.kafka.topic}"
    assert destination.files is not None
    return f"files/{destination.files.uri.rstrip('/').rpartition('/')[2]}"
