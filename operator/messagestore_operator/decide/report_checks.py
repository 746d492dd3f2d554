"""Checks run reports: a driver reads other people's data, so its report is untrusted input."""

import re
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.purge import EraseOutcome, PurgeOutcome
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStreamStatus, ReplayJobStatus
from messagestore_operator.api.messagestream_status import MaintenanceStatus
from messagestore_operator.api.retentionpolicy_status import LastPurge
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.snapshot import ObservedRun, Snapshot
from messagestore_operator.status import replay, stream
from messagestore_operator.status.facts import StreamResult
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.policy import policy_stream
from messagestore_operator.status.runs import ended_run, with_counts
from messagestore_operator.status.words import clock_time

_REASON = re.compile(r"[A-Z][A-Za-z]{0,62}")
_LONGEST_MESSAGE = 4000
_AnySnapshot = TypeVar("_AnySnapshot", bound=Snapshot)


def with_valid_reports(snapshot: _AnySnapshot) -> _AnySnapshot:
    """The snapshot without reports that don't fit a status; ``report_problem`` has the problem of each."""
    return replace(snapshot, runs=tuple(_with_valid_report(run, snapshot.now) for run in snapshot.runs))


def _with_valid_report(run: ObservedRun, now: datetime) -> ObservedRun:
    report = run.report
    if report is None:
        return run
    if report.run != run.ref.name:
        return replace(run, report=None, report_problem="its report names another run")
    report = _plain(report)
    try:
        _check(report, now)
    except (ValueError, OverflowError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return replace(run, report=None, report_problem=f"its report has an impossible value: {first}")
    return replace(run, report=report)


def _check(report: RunReport, now: datetime) -> None:
    """Raise ValueError or OverflowError for values that don't fit a status."""
    outcome = report.outcome
    with_counts(ended_run(CurrentRun(name=report.run), "Failed", now, report.error, report), report)
    stream.with_progress(MessageStreamStatus(), report, now)
    if isinstance(outcome, ReplayOutcome):
        figures = {"round": outcome.round, "replayedTotal": outcome.redelivered}
        ReplayJobStatus.model_validate({**replay.with_progress(ReplayJobStatus(), report).to_dict(), **figures})
    if isinstance(outcome, IngestOutcome) and (done := outcome.upkeep) is not None:
        MaintenanceStatus(
            requested_version=done.request_id, table_version=done.table_version, small_files=done.small_files
        )
    if isinstance(outcome, PurgeOutcome | EraseOutcome):
        stream.table_status(outcome.table)
    if isinstance(outcome, PurgeOutcome):
        policy_stream(StreamResult("any", report.model_copy(update={"error": None})), None)
    if isinstance(outcome, EraseOutcome):
        clock_time(outcome.erase_due_by)
        LastPurge(run="any", possible_copies=outcome.not_erased)


def _plain(report: RunReport) -> RunReport:
    """The report, with errors that fit a condition."""
    outcome = report.outcome
    if isinstance(outcome, IngestOutcome) and (done := outcome.upkeep) is not None:
        done = done.model_copy(update={"error": _plain_error(done.error)})
        outcome = outcome.model_copy(update={"upkeep": done})
    elif isinstance(outcome, ReplayOutcome):
        states = [one.model_copy(update={"error": _plain_error(one.error)}) for one in outcome.destinations]
        outcome = outcome.model_copy(update={"destinations": tuple(states)})
    return report.model_copy(update={"error": _plain_error(report.error), "outcome": outcome})


def _plain_error(error: RunError | None) -> RunError | None:
    if error is None:
        return None
    reason = error.reason if _REASON.fullmatch(error.reason) else Failure.RUN_FAILED
    words = " ".join("".join(character if character.isprintable() else " " for character in error.message).split())
    return error.model_copy(update={"reason": reason, "message": words[:_LONGEST_MESSAGE]})
