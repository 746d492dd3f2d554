"""When a stream's tables are compacted and cleaned, so that one that commits often stays fast."""

from __future__ import annotations

from datetime import timedelta

from messagestore_operator.api import MessageStreamStatus
from messagestore_operator.api.messagestream_status import MaintenanceStatus
from messagestore_operator.decide.check import held_back
from messagestore_operator.decide.snapshot import StreamSnapshot
from messagestore_operator.decide.trigger import created, failed

_AFTER_FAILURE = timedelta(hours=1)


def maintenance_due(snapshot: StreamSnapshot, status: MessageStreamStatus) -> bool:
    """Whether enough was written since the last time, or enough time went by since something was, and it may be now."""
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
        or (bounds.every is not None and snapshot.now - since >= bounds.every)
    )


def _failed_lately(snapshot: StreamSnapshot, last: MaintenanceStatus) -> bool:
    """Maintenance that fails must not keep messages waiting: it is left alone for a while."""
    run = last.last_run
    if run is None or not failed(run) or run.finished_at is None:
        return False
    return snapshot.now - run.finished_at.datetime < _AFTER_FAILURE
