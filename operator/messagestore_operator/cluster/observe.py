"""The state of a run from its SparkApplication, its ConfigMap and its pods."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, cast

from messagestore_core.contract.ingest import Upkeep
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.cluster.labels import run_ref
from messagestore_operator.cluster.reports import CONTROL, NO_READING, Reading, newest, read_report
from messagestore_operator.decide.snapshot import (
    CREATING,
    REFUSED,
    AppState,
    DriverControl,
    DriverPod,
    ObservedRun,
    Waiting,
)
from messagestore_operator.kube.objects import ApiObject, at, created_at, name_of, time_of
from messagestore_operator.names import DRIVER, DRIVER_ENDING

if TYPE_CHECKING:
    from messagestore_operator.cluster.run_objects import RunObjects

_ENDED = {"COMPLETED": AppState.SUCCEEDED, "SUBMISSION_FAILED": AppState.SUBMISSION_FAILED}
_UNDER_WAY = {"RUNNING", "SUCCEEDING", "FAILING", "UNKNOWN"}
"""There is or was a driver, and its end is unknown."""
ENDED_BY = ("applicationState", "executionAttempts")
"""Fields of an application's status that say how it ended."""
_NORMAL = {CREATING, "PodInitializing"}
_PHASES = ("Pending", "Running", "Succeeded", "Failed")
MAX_TEXT = 4096
"""Characters that are read of a message in an object's status."""


def observed_run(run: RunObjects, reading: Reading = NO_READING) -> ObservedRun | None:
    """The state of a run; None if no object names it.

    Args:
        reading: the report in its ConfigMap.
    """
    main = run.application or run.config_map or run.driver
    ref = run_ref(main, name_of(main).removesuffix(DRIVER_ENDING)) if main is not None else None
    if ref is None or main is None:
        return None
    driver = driver_of(run.driver) if run.driver is not None else None
    last_words = read_report(driver.termination_message, ref.name).report if driver else None
    report = newest(reading.report, last_words)
    return ObservedRun(
        ref=ref,
        state=app_state(run.application),
        created_at=created_at(main),
        message=_message(run),
        driver=driver,
        executors_waiting=_executors_waiting(run.executors.values(), report),
        report=report,
        report_problem=reading.problem,
        config_map=run.config_map is not None,
        control=_control(run.config_map),
        deleting=at(run.application, "metadata", "deletionTimestamp") is not None,
    )


def app_state(application: ApiObject | None) -> AppState:
    """The state of a SparkApplication.

    Kubeflow's final states are only COMPLETED and FAILED. SUBMISSION_FAILED is final here, as nothing is restarted.
    """
    if application is None:
        return AppState.MISSING
    state = str(at(application, "status", "applicationState", "state") or "")
    if state == "FAILED":
        submitted = int(at(application, "status", "executionAttempts") or 0) > 0
        return AppState.FAILED if submitted else AppState.SUBMISSION_FAILED
    if state in _ENDED:
        return _ENDED[state]
    return AppState.RUNNING if state in _UNDER_WAY else AppState.PENDING


def needed_status(pod: ApiObject) -> dict[str, Any]:
    """The part of a pod's status that is read here, a fifth of it."""
    status = pod.get("status") or {}
    containers = [
        {name: container[name] for name in ("name", "state", "lastState") if container.get(name)}
        for container in status.get("containerStatuses") or []
    ]
    lists = {"conditions": list(filter(_is_unplaced, status.get("conditions") or [])), "containerStatuses": containers}
    texts = {name: status.get(name) for name in ("phase", "reason", "message")}
    return {name: value for name, value in (texts | lists).items() if value}


def driver_of(pod: ApiObject) -> DriverPod:
    """A driver's pod."""
    status = pod.get("status") or {}
    container = _container(status)
    terminated = at(container, "state", "terminated") or {}
    phase = status.get("phase")
    return DriverPod(
        phase=cast(Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"], phase)
        if phase in _PHASES
        else "Unknown",
        waiting=waiting_of(pod),
        reason=_text(status.get("reason")),
        message=_text(status.get("message")),
        exit_code=terminated.get("exitCode"),
        termination_reason=_text(terminated.get("reason")),
        # Not truncated: a part of a report must not be mistaken for a whole one.
        termination_message=terminated.get("message") or None,
        deleting=at(pod, "metadata", "deletionTimestamp") is not None,
        created_at=created_at(pod),
        started_at=time_of(terminated.get("startedAt") or at(container, "state", "running", "startedAt")),
    )


def waiting_of(pod: ApiObject) -> Waiting | None:
    """Why a pod does not run yet: no node accepts it, or its container can't be created; None if nothing is wrong."""
    since = created_at(pod)
    condition = next(filter(_is_unplaced, at(pod, "status", "conditions") or []), None)
    if condition is not None:
        return Waiting("Unschedulable", str(condition.get("message") or "")[:MAX_TEXT], since)
    for container in at(pod, "status", "containerStatuses") or []:
        waiting = at(container, "state", "waiting")
        if waiting and waiting.get("reason") not in _NORMAL:
            return Waiting(str(waiting.get("reason") or ""), str(waiting.get("message") or "")[:MAX_TEXT], since)
    return None


def _is_unplaced(condition: ApiObject) -> bool:
    said = (condition.get("type"), condition.get("status"), condition.get("reason"))
    return said == ("PodScheduled", "False", "Unschedulable")


def loss_of(executor: ApiObject) -> str | None:
    """Why an executor failed, as a constant such as OOMKilled or Evicted; None if it has not."""
    status = executor.get("status") or {}
    for container in status.get("containerStatuses") or []:
        for state in ("state", "lastState"):
            reason = at(container, state, "terminated", "reason")
            if reason and reason != "Completed":
                return str(reason)
    return str(status.get("reason") or "Failed") if status.get("phase") == "Failed" else None


def _container(status: ApiObject) -> Any:
    containers = status.get("containerStatuses") or []
    named = [container for container in containers if container.get("name") == DRIVER]
    return next(iter(named or containers), None)


def _executors_waiting(executors: Collection[ApiObject], report: RunReport | None) -> Waiting | None:
    # While one runs, a report that says otherwise is older.
    if any(at(pod, "status", "phase") in ("Running", "Succeeded") for pod in executors):
        return None
    # The oldest pod has waited the longest.
    oldest = sorted(executors, key=lambda pod: str(at(pod, "metadata", "creationTimestamp") or ""))
    problem = next((waiting for pod in oldest if (waiting := waiting_of(pod))), None)
    # Pods that start without a problem, and don't run yet.
    made = (
        Waiting(CREATING, since=created_at(pod)) for pod in oldest if at(pod, "status", "phase") in (None, "Pending")
    )
    return problem or next(made, None) or _refused(report)


def _refused(report: RunReport | None) -> Waiting | None:
    """Why there are no executors, of which only the driver knows."""
    refused = report.executors_refused if report else None
    return Waiting(REFUSED, refused.message, refused.since) if refused else None


def _message(run: RunObjects) -> str:
    """The application's failure message, and why executors were lost; one often explains the other."""
    said = str(at(run.application, "status", "applicationState", "errorMessage") or "")[:MAX_TEXT]
    lost = sorted(set(run.lost_executors.values()))
    executors = f"executors were lost: {', '.join(lost)}" if lost else ""
    return "; ".join(part for part in (said, executors) if part)


def _control(config_map: ApiObject | None) -> DriverControl:
    try:
        fields = json.loads(at(config_map, "data", CONTROL) or "{}")
        rate = fields.get("messagesPerSecond")
        maintain = fields.get("maintain")
        return DriverControl(
            fields.get("stop") is True,
            float(rate) if rate is not None else None,
            Upkeep.model_validate(maintain) if maintain is not None else None,
        )
    except (ValueError, TypeError, AttributeError):
        return DriverControl()


def _text(value: Any) -> str | None:
    return str(value)[:MAX_TEXT] if value else None
