"""The statuses from the Spark operator and the kubelet, translated for the operator's decisions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messagestore_core.contract.run_report import ExecutorsRefused, RunReport
from messagestore_operator.cluster.kubeflow import application
from messagestore_operator.cluster.observe import app_state, driver_of, loss_of, needed_status, observed_run, waiting_of
from messagestore_operator.cluster.reports import Reading
from messagestore_operator.cluster.run_objects import RunObjects
from messagestore_operator.decide.snapshot import CREATING, REFUSED, AppState, Waiting
from support.launches import launch

CONTAINER = "spark-kubernetes-driver"


def _application(state: str, attempts: int = 1, **status: Any) -> dict[str, Any]:
    rendered = application(launch())
    rendered["metadata"]["creationTimestamp"] = "2026-03-01T06:30:00Z"
    app_status = {"applicationState": {"state": state, **status}, "executionAttempts": attempts}
    return {**rendered, "status": app_status}


def _pod(phase: str, *, conditions: list[Any] | None = None, **state: Any) -> dict[str, Any]:
    """As the operator keeps it."""
    containers = [{"name": CONTAINER, "state": state}] if state else []
    return _kept({"phase": phase, "conditions": conditions or [], "containerStatuses": containers})


def _kept(status: dict[str, Any]) -> dict[str, Any]:
    pod = {"kind": "Pod", "metadata": {"name": "orders-ingest-1-driver"}, "status": status}
    return {**pod, "status": needed_status(pod)}


def _executors(*pods: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"exec-{number}": pod for number, pod in enumerate(pods)}


@pytest.mark.parametrize(
    ("state", "attempts", "expected"),
    [
        ("", 0, AppState.PENDING),
        ("SUBMITTED", 1, AppState.PENDING),
        ("PENDING_RERUN", 1, AppState.PENDING),
        ("SUSPENDED", 1, AppState.PENDING),
        ("RUNNING", 1, AppState.RUNNING),
        ("SUCCEEDING", 1, AppState.RUNNING),
        ("FAILING", 1, AppState.RUNNING),
        ("UNKNOWN", 1, AppState.RUNNING),
        ("COMPLETED", 1, AppState.SUCCEEDED),
        ("FAILED", 1, AppState.FAILED),
        ("FAILED", 0, AppState.SUBMISSION_FAILED),
        ("SUBMISSION_FAILED", 0, AppState.SUBMISSION_FAILED),
        ("SOMETHING_NEW", 1, AppState.PENDING),
    ],
)
def test_each_state_of_an_application_has_one_meaning(state: str, attempts: int, expected: AppState) -> None:
    assert app_state(_application(state, attempts)) is expected


def test_a_run_without_an_application_is_missing() -> None:
    assert app_state(None) is AppState.MISSING


def test_a_run_is_known_by_its_application_again() -> None:
    wanted = launch()
    run = observed_run(RunObjects(application=_application("RUNNING")))
    assert run.ref == wanted.run.run


def test_an_application_that_is_not_labelled_as_a_run_is_nobodys() -> None:
    stranger = {"kind": "SparkApplication", "metadata": {"name": "theirs", "namespace": "default"}}
    assert observed_run(RunObjects(application=stranger)) is None


def test_a_pod_that_no_node_takes_says_why() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: insufficient memory",
    }
    pod = _pod("Pending", conditions=[condition])
    assert waiting_of(pod) == Waiting("Unschedulable", "0/3 nodes are available: insufficient memory")


def test_an_image_that_can_not_be_pulled_is_what_a_driver_waits_for() -> None:
    pod = _pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "not found"})
    assert driver_of(pod).waiting == Waiting("ImagePullBackOff", "not found")


def test_a_container_that_is_being_created_is_not_reported_as_waiting() -> None:
    assert waiting_of(_pod("Pending", waiting={"reason": "ContainerCreating"})) is None


def test_a_driver_that_ran_out_of_memory_says_so() -> None:
    driver = driver_of(_pod("Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}))
    assert (driver.exit_code, driver.termination_reason, driver.gone) == (137, "OOMKilled", True)


def test_a_driver_on_a_lost_node_is_not_gone() -> None:
    pod = _kept({"phase": "Unknown", "reason": "NodeLost"})
    assert (driver_of(pod).gone, driver_of(pod).reason) == (False, "NodeLost")


def test_a_sidecar_is_not_taken_for_the_driver() -> None:
    proxy = {"name": "proxy", "state": {"terminated": {"exitCode": 0}}}
    driver = {"name": CONTAINER, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    assert driver_of(_kept({"phase": "Failed", "containerStatuses": [proxy, driver]})).exit_code == 1


def test_of_a_pods_status_only_what_decisions_need_is_kept() -> None:
    begun = {"running": {"startedAt": "2026-03-01T06:30:00Z"}}
    of_container = {
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "spark",
        "containerID": "containerd://1",
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
        "hostIP": "10.10.0.1",
        "podIPs": [{"ip": "10.20.0.1"}],
        "containerStatuses": [{"name": CONTAINER, "state": begun, **of_container}],
    }
    needed = {"phase": "Running", "containerStatuses": [{"name": CONTAINER, "state": begun}]}
    assert _kept(status)["status"] == needed


def test_the_termination_message_of_a_driver_beats_an_older_report_in_its_config_map() -> None:
    words = '{"run": "orders-ingest-1", "sequence": 9, "state": "Failed", "startedAt": "2026-03-01T06:30:00Z"}'
    pod = _pod("Failed", terminated={"exitCode": 1, "message": words})
    run = observed_run(RunObjects(application=_application("FAILED"), driver=pod))
    assert run.report.sequence == 9


def test_a_termination_message_that_is_no_report_is_taken_as_text() -> None:
    pod = _pod("Failed", terminated={"exitCode": 1, "message": "OSError: no space left on device"})
    run = observed_run(RunObjects(application=_application("FAILED"), driver=pod))
    assert (run.report, run.driver.termination_message) == (None, "OSError: no space left on device")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Failed"}, "Failed"),
        ({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}, None),
        ({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}, None),
    ],
)
def test_the_reason_why_an_executor_was_lost_comes_from_its_pod(status: dict[str, Any], reason: str | None) -> None:
    assert loss_of(_kept(status)) == reason


def test_lost_executors_are_a_part_of_what_the_application_says() -> None:
    parts = RunObjects(
        application=_application("FAILED", errorMessage="driver container failed with ExitCode: 1, Reason: Error"),
        lost_executors={"exec-1": "OOMKilled", "exec-2": "OOMKilled"},
    )
    run = observed_run(parts)
    assert run.message.endswith("Reason: Error; executors were lost: OOMKilled")


def test_executors_wait_only_as_long_as_none_runs() -> None:
    waiting = _pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "not found"})
    alone = observed_run(RunObjects(application=_application("RUNNING"), executors=_executors(waiting)))
    beside = observed_run(
        RunObjects(application=_application("RUNNING"), executors=_executors(waiting, _pod("Running")))
    )
    assert (alone.executors_waiting, beside.executors_waiting) == (Waiting("ImagePullBackOff", "not found"), None)


def test_executors_are_refused_if_the_driver_says_so_and_no_pod_says_more() -> None:
    since = datetime(2026, 3, 1, 6, 31, tzinfo=UTC)
    refused = ExecutorsRefused(since=since, message="exceeded quota")
    told = RunReport(run="orders-ingest-1", sequence=1, state="Running", started_at=since, executors_refused=refused)
    alone = observed_run(RunObjects(application=_application("RUNNING")), Reading(told))
    waiting = _pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "not found"})
    beside = observed_run(RunObjects(application=_application("RUNNING"), executors=_executors(waiting)), Reading(told))
    running = observed_run(
        RunObjects(application=_application("RUNNING"), executors=_executors(_pod("Running"))), Reading(told)
    )
    assert alone.executors_waiting == Waiting(REFUSED, "exceeded quota", since)
    assert running.executors_waiting is None, "the report is older"
    assert beside.executors_waiting == Waiting("ImagePullBackOff", "not found")


def test_executors_wait_since_the_oldest_of_their_pods_was_made() -> None:
    young = _pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "not found"})
    old = _pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "not found"})
    young["metadata"]["creationTimestamp"] = "2026-03-01T06:50:00Z"
    old["metadata"]["creationTimestamp"] = "2026-03-01T06:31:00Z"
    run = observed_run(RunObjects(application=_application("RUNNING"), executors=_executors(young, old)))
    since = datetime(2026, 3, 1, 6, 31, tzinfo=UTC)
    assert run.executors_waiting == Waiting("ImagePullBackOff", "not found", since)


def test_executors_that_are_still_being_made_are_waited_for_as_well() -> None:
    made = _pod("Pending", waiting={"reason": "ContainerCreating"})
    made["metadata"]["creationTimestamp"] = "2026-03-01T06:31:00Z"
    run = observed_run(RunObjects(application=_application("RUNNING"), executors=_executors(_pod("Failed"), made)))
    assert run.executors_waiting == Waiting(CREATING, since=datetime(2026, 3, 1, 6, 31, tzinfo=UTC))
