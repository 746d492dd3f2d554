"""What a stream's status remembers of runs that go on and runs that have ended."""

from __future__ import annotations

from messagestore_jobs.contract.run_report import MaintainOutcome
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import MaintenanceStatus, StreamRun
from messagestore_operator.decide.life import Ended, Step
from messagestore_operator.decide.snapshot import StreamSnapshot
from messagestore_operator.status.runs import counts_of, ended_run
from messagestore_operator.status.stream import with_progress


def recorded(snapshot: StreamSnapshot, before: MessageStreamStatus, step: Step) -> MessageStreamStatus:
    """The status with the numbers of the run under way, or with what came of the one that has ended."""
    if step.ended is None:
        return with_progress(before, step.live, snapshot.now)
    ended = step.ended
    status = with_progress(before, ended.report, snapshot.now)
    run = _run(ended)
    limit = snapshot.stream.spec.run_history_limit
    news: dict[str, object] = {"recent_runs": (run, *before.recent_runs)[:limit]}
    if ended.run.kind == "maintain":
        news["maintenance"] = _maintained(before.maintenance or MaintenanceStatus(), ended)
    else:
        news["last_run"] = run
    return status.model_copy(update=news)


def _run(ended: Ended) -> StreamRun:
    run = ended_run(ended.run, ended.state, ended.at, ended.error)
    return StreamRun(**{**run.model_dump(), **counts_of(ended.report)})


def _maintained(before: MaintenanceStatus, ended: Ended) -> MaintenanceStatus:
    run = ended_run(ended.run, ended.state, ended.at, ended.error)
    outcome = ended.report.outcome if ended.report else None
    if ended.state != "Succeeded" or not isinstance(outcome, MaintainOutcome):
        return before.model_copy(update={"last_run": run})
    return MaintenanceStatus(
        at=run.finished_at, table_version=outcome.table.version, small_files=outcome.table.small_files, last_run=run
    )
