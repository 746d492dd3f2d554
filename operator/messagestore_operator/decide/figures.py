"""Limits how often a status is written if only its figures change; other changes are written at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from messagestore_operator.decide.actions import Decision, EmitEvent, Status, WriteStatus, need_newest_status
from messagestore_operator.decide.snapshot import Snapshot
from messagestore_operator.reasons import Reason

_FIGURES = ("lag", "lastBatchTime", "lifecycle", "progress", "sequences", "table", "totals")


def sparing(snapshot: Snapshot, before: Status | None, wanted: Decision) -> Decision:
    """The decision, without a status write that has only new figures and follows the last one too soon.

    Events about these figures wait for the write.
    """
    if snapshot.status_written is None or before is None or _essence(before) != _essence(wanted.status):
        return wanted
    due = snapshot.status_written + snapshot.defaults.status_interval
    writes = any(isinstance(action, WriteStatus) for action in wanted.actions)
    if need_newest_status(wanted.actions) or not writes or due <= snapshot.now:
        return wanted
    left = tuple(action for action in wanted.actions if not isinstance(action, WriteStatus | EmitEvent))
    return replace(wanted, actions=left, requeue_at=min(due, wanted.requeue_at or due))


def _essence(status: Status) -> dict[str, Any]:
    """A status without its figures, and without the messages that contain them."""
    compared = {name: value for name, value in status.to_dict().items() if name not in _FIGURES}
    for run in (compared, *compared.get("streams", ())):
        run.get("currentRun", {}).pop("progress", None)
    for condition in compared.get("conditions", ()):
        if condition["reason"] == Reason.INGESTING:
            del condition["message"]
    return compared
