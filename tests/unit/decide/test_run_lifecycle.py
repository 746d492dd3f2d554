"""The life of one current run, by what is observed of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.run_report import RunProgress, RunReport
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.api.status import RunError as StatusError
from messagestore_operator.decide.actions import AcquireLease, AwaitRoom, DeleteRun
from messagestore_operator.decide.leases import next_epoch
from messagestore_operator.decide.run_lifecycle import DesiredRun, PlannedRun, RunStage, follow, launch
from messagestore_operator.decide.run_queue import RunBounds, RunQueue
from messagestore_operator.decide.snapshot import (
    REFUSED,
    AppState,
    Defaults,
    DriverControl,
    DriverPod,
    ObservedRun,
    RunRef,
    Snapshot,
    TableKey,
    TableLease,
    Waiting,
)
from messagestore_operator.decide.tables import slot_of
from messagestore_operator.status.words import clock_time
from support import launches

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DENIED = RunError(reason="StorageDenied", message="access denied")
STUCK = DriverPod("Pending", waiting=Waiting("ImagePullBackOff"))
RUNNING = {"started_at": clock_time(NOW - timedelta(hours=9)), "state": "Running"}
REF = RunRef("default", "orders-ingest-1", 1, "ingest")


def seen(state: AppState = AppState.RUNNING, driver: DriverPod | None = None, **given: Any) -> ObservedRun:
    return ObservedRun(REF, state, driver=driver or DriverPod("Running"), **given)


def current(**given: Any) -> CurrentRun:
    launched = {"requested_at": clock_time(NOW), "launched_at": clock_time(NOW)}
    return CurrentRun(**{"name": REF.name, "kind": "ingest", "number": 1, "generation": 1, **launched, **given})


def report(state: Any, error: RunError | None = None) -> RunReport:
    return RunReport(run=REF.name, sequence=1, state=state, started_at=NOW, error=error)


def stage(run: CurrentRun, observed: ObservedRun, desired: DesiredRun | None = None) -> RunStage:
    return follow(Snapshot(now=NOW, runs=(observed,)), run, desired or DesiredRun(generation=1))


def ending(found: RunStage) -> str | None:
    return found.current.ending.reason if found.current.ending else None


STOP, START = Defaults().stop_deadline, Defaults().start_deadline


@pytest.mark.parametrize(
    ("given", "observed", "reason"),
    [
        ({**RUNNING, "stop_requested_at": clock_time(NOW - STOP)}, seen(), "StopDeadlineExceeded"),
        ({**RUNNING, "stop_requested_at": clock_time(NOW - STOP + SECOND)}, seen(), None),
        (
            {"launched_at": clock_time(NOW - START)},
            seen(AppState.PENDING, DriverPod("Pending")),
            "StartDeadlineExceeded",
        ),
        ({"launched_at": clock_time(NOW - START + SECOND)}, seen(AppState.PENDING, DriverPod("Pending")), None),
        (RUNNING, seen(executors_waiting=Waiting("Unschedulable", since=NOW - START)), "Unschedulable"),
        (RUNNING, seen(executors_waiting=Waiting("Unschedulable", since=NOW - START + SECOND)), None),
        (RUNNING, seen(executors_waiting=Waiting(REFUSED, since=NOW - START)), "ExecutorsRefused"),
    ],
)
def test_a_run_is_ended_at_its_deadline_and_no_second_before(
    given: dict[str, Any], observed: ObservedRun, reason: str | None
) -> None:
    found = stage(current(**given), observed)
    assert ending(found) == reason
    assert found.actions == ((DeleteRun("default", REF.name),) if reason else ())


def test_a_run_whose_deletion_was_requested_is_not_deleted_again_and_is_polled_until_it_is_gone() -> None:
    ended = current(**RUNNING, ending=StatusError(reason="SpecChanged", message="m"))
    found = stage(ended, seen(deleting=True, report=report("Running")))
    assert (found.actions, ending(found)) == ((), "SpecChanged")
    assert found.requeue_at == (NOW + Defaults().poll_interval,)
    assert found.live == report("Running")


@pytest.mark.parametrize(
    ("desired", "reason"),
    [
        (DesiredRun(generation=1), None),
        (DesiredRun(generation=2), "SpecChanged"),
        (DesiredRun(generation=1, wanted=False), "Suspended"),
        (DesiredRun(generation=1, abort=DENIED), "StorageDenied"),
    ],
)
def test_a_run_that_cannot_start_is_ended_once_it_is_not_wanted_and_both_causes_are_reported(
    desired: DesiredRun, reason: str | None
) -> None:
    found = stage(current(), seen(AppState.PENDING, STUCK), desired)
    assert ending(found) == reason
    assert found.trouble.reason == "ImagePullFailed"


def test_a_running_run_continues_when_the_spec_changes() -> None:
    found = stage(current(**RUNNING), seen(), DesiredRun(generation=2, wanted=False))
    assert (ending(found), found.actions) == (None, ())


def test_a_stop_is_requested_once_and_never_withdrawn() -> None:
    found = stage(current(**RUNNING), seen(), DesiredRun(generation=1, stop=True))
    assert [action.control for action in found.actions] == [DriverControl(stop=True)]
    assert found.current.stop_requested_at == clock_time(NOW)
    earlier = current(**RUNNING, stop_requested_at=clock_time(NOW - SECOND))
    again = stage(earlier, seen(control=DriverControl(stop=True)))
    assert again.actions == ()
    assert again.current.stop_requested_at == clock_time(NOW - SECOND)


def test_a_run_without_a_config_map_gets_no_control() -> None:
    assert stage(current(**RUNNING), seen(config_map=False), DesiredRun(generation=1, stop=True)).actions == ()


GONE, FAILED = {"state": AppState.MISSING}, {"state": AppState.FAILED, "driver": DriverPod("Failed", exit_code=1)}
SUCCEEDED = {"state": AppState.SUCCEEDED, "driver": DriverPod("Succeeded")}
TOLD_TO_STOP = RunError(reason="RunStopped", message="told to stop")
STOPPED = StatusError(reason="StopDeadlineExceeded", message="m")
CHANGED = StatusError(reason="SpecChanged", message="m")


@pytest.mark.parametrize(
    ("observed", "said", "ended_by", "state", "reason"),
    [
        (FAILED, report("Succeeded"), STOPPED, "Succeeded", None),
        (FAILED, report("Failed", DENIED), STOPPED, "Failed", "StopDeadlineExceeded"),
        (FAILED, None, CHANGED, "Cancelled", "SpecChanged"),
        (FAILED, report("Failed", DENIED), None, "Failed", "StorageDenied"),
        (FAILED, report("Failed", TOLD_TO_STOP), None, "Cancelled", "RunStopped"),
        (GONE, report("Failed", TOLD_TO_STOP), None, "Cancelled", "RunStopped"),
        (FAILED, report("Failed", TOLD_TO_STOP), STOPPED, "Failed", "StopDeadlineExceeded"),
        (FAILED, report("Running"), None, "Failed", "RunFailed"),
        (SUCCEEDED, report("Failed", DENIED), None, "Failed", "StorageDenied"),
        (SUCCEEDED, report("Running"), None, "Failed", "ReportMissing"),
        (SUCCEEDED, None, None, "Failed", "ReportMissing"),
        (GONE, report("Failed", DENIED), None, "Failed", "StorageDenied"),
        (GONE, report("Running"), None, "Failed", "RunLost"),
        (GONE, None, None, "Failed", "RunLost"),
    ],
)
def test_the_outcome_of_a_run_comes_from_its_report_then_its_ending_then_its_objects(
    observed: dict[str, Any], said: RunReport | None, ended_by: StatusError | None, state: str, reason: str | None
) -> None:
    found = stage(current(**RUNNING, ending=ended_by), ObservedRun(REF, report=said, **observed)).ended
    assert (found.state, found.error.reason if found.error else None, found.at) == (state, reason, NOW)
    assert found.report == said


def test_a_run_of_which_nothing_is_left_says_that_it_was_deleted() -> None:
    found = follow(Snapshot(now=NOW), current(**RUNNING), DesiredRun(generation=1)).ended
    assert found.error == RunError(reason="RunLost", message="its application was deleted before it had ended")


def test_a_reserved_run_of_which_nothing_was_made_yet_has_not_ended() -> None:
    reserved = current(launched_at=None)
    assert follow(Snapshot(now=NOW), reserved, DesiredRun(generation=1)) == RunStage(reserved)


@pytest.mark.parametrize("driver", [DriverPod("Unknown"), DriverPod("Running"), DriverPod("Pending")])
@pytest.mark.parametrize("state", [AppState.SUCCEEDED, AppState.FAILED, AppState.MISSING])
def test_a_run_has_not_ended_while_its_driver_may_still_write(state: AppState, driver: DriverPod) -> None:
    found = stage(current(**RUNNING), seen(state, driver, report=report("Succeeded")))
    assert found.ended is None
    assert (found.trouble.reason, found.requeue_at) == ("WaitingForDriver", (NOW + Defaults().poll_interval,))


def test_launch_time_and_generation_of_an_unrecorded_launch_come_from_its_objects() -> None:
    made = NOW - timedelta(minutes=3)
    observed = replace(seen(AppState.PENDING, DriverPod("Pending"), created_at=made), ref=replace(REF, generation=7))
    found = stage(current(launched_at=None, generation=2), observed, DesiredRun(generation=7)).current
    assert (found.launched_at, found.generation, found.started_at) == (clock_time(made), 7, None)


@pytest.mark.parametrize(
    ("observed", "begun"),
    [
        (seen(AppState.RUNNING, DriverPod("Pending")), True),
        (seen(AppState.PENDING, DriverPod("Running")), True),
        (seen(AppState.PENDING, DriverPod("Pending")), False),
        (ObservedRun(REF, AppState.PENDING), False),
    ],
)
def test_a_run_has_begun_once_its_application_or_its_driver_says_so(observed: ObservedRun, begun: bool) -> None:
    found = stage(current(state="Pending"), observed).current
    assert (found.started_at, found.state) == ((clock_time(NOW), "Running") if begun else (None, "Pending"))


def test_a_started_run_keeps_its_start_time_and_shows_its_progress() -> None:
    said = report("Running").model_copy(update={"progress": RunProgress(step="batch 3")})
    found = stage(current(**RUNNING), seen(report=said)).current
    assert (found.started_at, found.progress) == (RUNNING["started_at"], "batch 3")


def test_a_run_that_has_an_application_and_no_config_map_yet_is_still_to_be_launched() -> None:
    half = seen(AppState.PENDING, config_map=False)
    assert stage(current(launched_at=None), half).unlaunched
    assert not stage(current(), half).unlaunched


ONE, TWO, FORMER = (TableKey("default", "", f"s3a://lake/{name}") for name in ("one", "two", "former"))
RESERVED = current(launched_at=None)
OWNER = launches.stream()
SLOT = slot_of(OWNER, RESERVED, [OWNER])
CREATE = replace(launches.launch(name=REF.name).run, slot=SLOT)
SOON = (NOW + Defaults().poll_interval,)


def launched(*held: TableKey, by: str = "default/other", most: int | None = None) -> RunStage:
    """Launch a run that writes two tables, one of which had another name before; `held` of the three have a holder."""
    leases = {table: TableLease(table, 7, by, since=NOW, resource_version="1") for table in held}
    snapshot = Snapshot(now=NOW, leases=leases, run_queue=RunQueue(bounds=RunBounds(in_all=most)))
    planned = PlannedRun(OWNER, RESERVED, [ONE, TWO], lambda _: replace(CREATE, slot=None), [OWNER], [FORMER])
    return launch(snapshot, planned)


def taken(table: TableKey) -> AcquireLease:
    return AcquireLease(table, f"default/{REF.name}", next_epoch(0, NOW), None)


def test_a_run_takes_its_tables_before_it_is_launched_and_is_requeued_soon() -> None:
    assert launched() == RunStage(RESERVED, actions=(taken(ONE), taken(TWO), CREATE), requeue_at=SOON)


def test_a_run_that_waits_for_its_second_table_keeps_the_first_and_is_requeued_soon() -> None:
    found = launched(TWO)
    assert found.trouble == RunError(reason="TableBusy", message="s3a://lake/two is in use: waiting for run other")
    assert (found.current, found.actions, found.requeue_at) == (RESERVED, (taken(ONE),), SOON)


def test_a_run_that_has_one_of_its_tables_takes_only_the_other_and_skips_the_queue() -> None:
    assert launched(most=0).actions == (AwaitRoom(SLOT),)
    found = launched(ONE, by=f"default/{REF.name}", most=0)
    assert (found.trouble, found.actions) == (None, (taken(TWO), CREATE))


def test_a_run_waits_while_a_run_of_the_tables_former_owner_lasts() -> None:
    found = launched(FORMER)
    assert (found.trouble.reason, found.actions, found.requeue_at) == ("TableBusy", (), SOON)
