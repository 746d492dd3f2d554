"""Ended runs as a status lists them."""

from __future__ import annotations

from messagestore_jobs.contract.run_report import IngestOutcome, RunError, RunReport
from messagestore_operator.api import status as api
from messagestore_operator.api.messagestream_status import StreamRun
from messagestore_operator.status.times import clock_time


def api_error(error: RunError | None) -> api.RunError | None:
    """Why a run failed, as a status has it."""
    return None if error is None else api.RunError(reason=error.reason, message=error.message)


def finished_run(report: RunReport, kind: str) -> api.FinishedRun:
    """A run of any kind."""
    return api.FinishedRun(
        name=report.run,
        kind=kind,
        state=report.state,
        started_at=clock_time(report.started_at),
        finished_at=clock_time(report.finished_at),
        error=api_error(report.error),
    )


def stream_run(report: RunReport) -> StreamRun:
    """A run of a stream, with what became of its records."""
    counts = report.outcome.counts.model_dump() if isinstance(report.outcome, IngestOutcome) else {}
    return StreamRun(
        name=report.run,
        kind="ingest",
        state=report.state,
        started_at=clock_time(report.started_at),
        finished_at=clock_time(report.finished_at),
        error=api_error(report.error),
        **counts,
    )
