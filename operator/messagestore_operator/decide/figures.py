"""Figures of a status, which each batch changes: they are written now and then, and all else at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from messagestore_operator.decide.actions import Decision, EmitEvent, Status, WriteStatus, need_newest_status
from messagestore_operator.decide.snapshot import Snapshot
from messagestore_operator.reasons import Reason

_FIGURES = ("lag", "lastBatchTime", "lifecycle", "progress", "sequences", "table", "totals")


def sparing(snapshot: Snapshot, before: Status | None, wanted: Decision) -> Decision:
    """The decision without the writing of a status of which only figures are new, where one was written lately.

    What would be told of these figures is told with them.
    """
    if snapshot.status_written is None or before is None or _essence(before) != _essence(wanted.status):
        return wanted
    due = snapshot.status_written + snapshot.defaults.status_interval
    writes = any(isinstance(action, WriteStatus) for action in wanted.actions)
    if need_newest_status(wanted.actions) or not writes or due <= snapshot.now:
        return wanted
    left = tuple(action for action in wanted.actions if not isinstance(action, WriteStatus | EmitEvent))
    return replace(wanted, actions=left, look_again=min(due, wanted.look_again or due))


def _essence(status: Status) -> dict[str, Any]:
    """A status without its figures, and without the words that hold them."""
    found = {name: value for name, value in status.to_dict().items() if name not in _FIGURES}
    for run in (found, *found.get("streams", ())):
        run.get("currentRun", {}).pop("progress", None)
    for condition in found.get("conditions", ()):
        if condition["reason"] == Reason.INGESTING:
            del condition["message"]
    return found
