"""Records a stream's runs in its status."""

from collections.abc import Iterator

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import UpkeepDone
from messagestore_core.contract.run_report import MaintainOutcome
from messagestore_operator.api import MessageStreamStatus, ReplayJob, RetentionPolicy
from messagestore_operator.api.messagestream_status import MaintenanceStatus, TableStatus
from messagestore_operator.api.status import CurrentRun, RunState
from messagestore_operator.decide.maintenance import upkeep_done
from messagestore_operator.decide.run_lifecycle import EndedRun, RunStage
from messagestore_operator.decide.snapshot import StreamSnapshot
from messagestore_operator.decide.tables import table_key
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.runs import ended_run, with_counts
from messagestore_operator.status.stream import with_newer_contents, with_progress


def recorded(snapshot: StreamSnapshot, before: MessageStreamStatus, stage: RunStage) -> MessageStreamStatus:
    """The status with the figures of the run in progress, or the outcome of the ended one, and of others' runs."""
    status, granted = _with_runs(snapshot, before, stage), snapshot.lease(table_key(snapshot.stream)).epoch
    if status.table is not None:
        tables = [table for table in _after_others(snapshot) if (table.epoch or 0) <= granted]
    else:
        # A stream without a run may have been made again: only the last grant tells what its store has.
        tables = [table for table in _after_replays_into(snapshot) if table.epoch == granted]
    return with_newer_contents(status, tables)


def _after_others(snapshot: StreamSnapshot) -> Iterator[TableStatus]:
    """The contents of the store after the last run of each policy and replay that wrote to it."""
    name = snapshot.stream.metadata.name
    for one in snapshot.referring:
        if isinstance(one, RetentionPolicy):
            tables = [entry.table for entry in one.status.streams if entry.name == name] if one.status else []
        else:
            tables = [one.status.table] if one.status and one.spec.stream_ref.name == name else []
        yield from filter(None, tables)
    yield from _after_replays_into(snapshot)


def _after_replays_into(snapshot: StreamSnapshot) -> Iterator[TableStatus]:
    for job in snapshot.referring:
        if isinstance(job, ReplayJob) and job.status is not None and job.status.target_table is not None:
            to = job.spec.target
            if to is not None and to.name == snapshot.stream.metadata.name:
                yield job.status.target_table


def _with_runs(snapshot: StreamSnapshot, before: MessageStreamStatus, stage: RunStage) -> MessageStreamStatus:
    if stage.ended is None:
        status = with_progress(before, stage.live, snapshot.now)
        return _with_upkeep(snapshot, status, stage.current, upkeep_done(stage.live))
    ended = stage.ended
    status = with_progress(before, ended.report, snapshot.now)
    status = _with_upkeep(snapshot, status, ended.run, _of_ended(snapshot, ended))
    run = with_counts(ended.finished_run(), ended.report)
    limit = snapshot.stream.spec.run_history_limit
    changes: dict[str, object] = {"recent_runs": (run, *before.recent_runs)[:limit]}
    if ended.run.kind == "maintain":
        changes["maintenance"] = _maintained(before.maintenance or MaintenanceStatus(), ended)
    else:
        changes["last_run"] = run
        if run.state == "Succeeded":
            changes["last_success_time"] = run.finished_at
    return status.model_copy(update=changes)


def _with_upkeep(
    snapshot: StreamSnapshot, status: MessageStreamStatus, run: CurrentRun | None, done: UpkeepDone | None
) -> MessageStreamStatus:
    """The status with the outcome of the maintenance within a run, recorded once."""
    before = status.maintenance or MaintenanceStatus()
    if run is None or done is None or done.request_id == before.requested_version:
        return status
    state: RunState = "Failed" if done.error else "Succeeded"
    last = ended_run(run.model_copy(update={"kind": "maintain"}), state, snapshot.now, done.error)
    changes: dict[str, object] = {"last_run": last, "requested_version": done.request_id}
    if done.error is None:
        changes |= {"at": last.finished_at, "table_version": done.table_version, "small_files": done.small_files}
    return status.model_copy(update={"maintenance": before.model_copy(update=changes)})


def _of_ended(snapshot: StreamSnapshot, ended: EndedRun) -> UpkeepDone | None:
    """The outcome of the maintenance within an ended run. If the run failed during it, maintenance may be the cause."""
    run, done = snapshot.run(ended.run.name), upkeep_done(ended.report)
    requested = run.control.maintain if run else None
    if requested is None or ended.state != "Failed" or (done is not None and done.request_id == requested.request_id):
        return done
    words = "the run failed before it finished the maintenance"
    return UpkeepDone(request_id=requested.request_id, error=RunError(reason=Failure.RUN_FAILED, message=words))


def _maintained(before: MaintenanceStatus, ended: EndedRun) -> MaintenanceStatus:
    run = ended.finished_run()
    outcome = ended.report.outcome if ended.report else None
    if ended.state != "Succeeded" or not isinstance(outcome, MaintainOutcome):
        return before.model_copy(update={"last_run": run})
    return MaintenanceStatus(
        at=run.finished_at, table_version=outcome.table.version, small_files=outcome.table.small_files, last_run=run
    )
