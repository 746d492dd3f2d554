"""Lines of the operator's log about resources and runs: names, reasons, counts and seconds, and no texts of others."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from messagestore_core.contract.run_report import counts_of
from messagestore_core.logs import tell
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.scalars import Time
from messagestore_operator.decide.actions import Status
from messagestore_operator.decide.run_lifecycle import EndedRun
from messagestore_operator.status.conditions import condition_of

_log = logging.getLogger("messagestore_operator.resources")
_NEED_SOMEBODY = frozenset({"Failing", "Stalled", "Failed"})


def log_change(resource: Resource, after: Status) -> None:
    """A line if the phase of a resource, or the reason of its condition Ready, has changed."""
    old, new = _state(_status(resource)), _state(after)
    if old == new:
        return
    level = logging.WARNING if new[0] in _NEED_SOMEBODY else logging.INFO
    tell(_log, level, "state changed", {**_names(resource), "from": old[0], "to": new[0], "reason": new[1]})


def log_deleted(resource: Resource) -> None:
    """A line about a resource that is gone."""
    phase, _ = _state(_status(resource))
    tell(_log, logging.INFO, "state changed", {**_names(resource), "from": phase, "to": "Deleted", "reason": "Deleted"})


def log_run(resource: Resource, ended: EndedRun) -> None:
    """A line about how a run ended: its result, its counts, and how long it waited, started and worked."""
    run = ended.run
    fields = {
        **_names(resource),
        "run": run.name,
        "runKind": run.kind,
        "attempt": run.attempt,
        "result": ended.state,
        "reason": ended.error.reason if ended.error else None,
        "seconds": {
            "waiting": _seconds(run.requested_at, run.launched_at),
            "starting": _seconds(run.launched_at, run.started_at),
            "working": _seconds(run.started_at, ended.at),
        },
        "counts": counts_of(ended.report.outcome if ended.report else None),
    }
    tell(_log, logging.WARNING if ended.state == "Failed" else logging.INFO, "run ended", fields)


def _names(resource: Resource) -> dict[str, Any]:
    kind, namespace, name = resource.identity
    return {"kind": kind, "namespace": namespace, "name": name}


def _status(resource: Resource) -> Status | None:
    return resource.status if isinstance(resource, MessageStream | RetentionPolicy | ReplayJob) else None


def _state(status: Status | None) -> tuple[str | None, str | None]:
    ready = condition_of(status, "Ready")
    return (status.phase if status else None), (ready.reason if ready else None)


def _seconds(since: Time | None, until: Time | datetime | None) -> float | None:
    if since is None or until is None:
        return None
    end = until if isinstance(until, datetime) else until.datetime
    return round(max(0.0, (end - since.datetime).total_seconds()), 1)
