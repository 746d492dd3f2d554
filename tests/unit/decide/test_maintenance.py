"""What maintenance knows of replays, which read what it would otherwise delete."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from messagestore_core.contract.ingest import Upkeep
from messagestore_operator.api import MessageStreamStatus, ReplayJob
from messagestore_operator.api.messagestream_status import MaintenanceStatus, TableStatus
from messagestore_operator.decide.maintenance import maintenance_due, oldest_replay, upkeep_of
from messagestore_operator.decide.snapshot import (
    AppState,
    Defaults,
    MaintenanceBounds,
    ObservedRun,
    RunRef,
    StreamSnapshot,
)
from messagestore_operator.status.words import clock_time
from support.launches import stream

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
RUN = ObservedRun(RunRef("default", "orders-ingest-1", 1, "ingest"), AppState.RUNNING)
WRITTEN = MessageStreamStatus(table=TableStatus(version=300))


def replay(started_at: datetime | None) -> ReplayJob:
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    status = {"startedAt": started_at.isoformat().replace("+00:00", "Z")} if started_at else {}
    return ReplayJob.model_validate({"metadata": {"name": "again"}, "spec": spec, "status": status})


def snapshot(*started_at: datetime | None) -> StreamSnapshot:
    return StreamSnapshot(now=NOW, stream=stream(), replays=tuple(map(replay, started_at)))


@pytest.mark.parametrize(
    ("started_at", "oldest"),
    [((), None), ((None,), None), ((NOW - HOUR, None, NOW - 2 * HOUR, NOW), NOW - 2 * HOUR)],
)
def test_a_run_that_is_asked_for_maintenance_is_told_when_the_oldest_replay_began(
    started_at: tuple[datetime | None, ...], oldest: datetime | None
) -> None:
    found = snapshot(*started_at)
    assert oldest_replay(found) == oldest
    assert upkeep_of(found, WRITTEN, RUN) == Upkeep(request_id=300, oldest_replay=oldest)


@pytest.mark.parametrize(("last", "due"), [(NOW - HOUR, True), (NOW - HOUR / 2, False), (NOW + 9 * HOUR, True)])
def test_maintenance_by_time_waits_for_no_moment_that_a_clock_told_before_it_was_set_back(
    last: datetime, due: bool
) -> None:
    by_time = Defaults(maintenance=MaintenanceBounds(commits=None, small_files=None, every=HOUR))
    status = WRITTEN.model_copy(update={"maintenance": MaintenanceStatus(at=clock_time(last))})
    assert maintenance_due(replace(snapshot(), defaults=by_time), status) is due
