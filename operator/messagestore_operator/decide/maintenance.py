"""When a stream's tables are compacted and vacuumed, so that they stay fast with any number of commits."""

from datetime import datetime, timedelta

from messagestore_core.contract.ingest import IngestOutcome, Upkeep, UpkeepDone
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import MaintenanceStatus
from messagestore_operator.decide.blockers import held_back
from messagestore_operator.decide.snapshot import ObservedRun, StreamSnapshot
from messagestore_operator.decide.trigger import created
from messagestore_operator.status.runs import broke_off

_AFTER_FAILURE = timedelta(hours=1)


def maintenance_due(snapshot: StreamSnapshot, status: MessageStreamStatus) -> bool:
    """Whether maintenance is due, by commits, small files or time since the last one, and may run now."""
    table, last = status.table, status.maintenance or MaintenanceStatus()
    if table is None or table.version is None or _failed_lately(snapshot, last) or held_back(snapshot):
        return False
    bounds, written = snapshot.defaults.maintenance, table.version - (last.table_version or 0)
    if written <= 0:
        return False
    small = (table.small_files or 0) - (last.small_files or 0)
    since = last.at.datetime if last.at else created(snapshot.stream, snapshot.now)
    return (
        (bounds.commits is not None and written >= bounds.commits)
        or (bounds.small_files is not None and small >= bounds.small_files)
        # Before the clock was set back it may have told a moment far ahead.
        or (bounds.every is not None and abs(snapshot.now - since) >= bounds.every)
    )


def upkeep_of(snapshot: StreamSnapshot, status: MessageStreamStatus, run: ObservedRun) -> Upkeep | None:
    """The maintenance that a continuous run shall do between batches; an earlier request stays until it has ended."""
    requested, last = run.control.maintain, status.maintenance or MaintenanceStatus()
    # The status decides: until it records the end, maintenance still looks due.
    through = requested is None or requested.request_id == last.requested_version
    if not through or not maintenance_due(snapshot, status) or status.table is None:
        return requested
    return Upkeep(request_id=status.table.version or 0, oldest_replay=oldest_replay(snapshot))


def upkeep_done(report: RunReport | None) -> UpkeepDone | None:
    """The outcome of the maintenance that a continuous run was asked for last."""
    outcome = report.outcome if report else None
    return outcome.upkeep if isinstance(outcome, IngestOutcome) else None


def oldest_replay(snapshot: StreamSnapshot) -> datetime | None:
    """When the oldest replay that still reads the stream's store started."""
    begun = (job.status.started_at for job in snapshot.replays if job.status)
    return min((time.datetime for time in begun if time is not None), default=None)


def _failed_lately(snapshot: StreamSnapshot, last: MaintenanceStatus) -> bool:
    """Whether maintenance failed, or was stopped, within an hour of now; then ingest comes first."""
    run = last.last_run
    if run is None or not broke_off(run) or run.finished_at is None:
        return False
    return abs(snapshot.now - run.finished_at.datetime) < _AFTER_FAILURE
