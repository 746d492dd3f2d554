"""Rows of the audit about replays: one for each that ended, and one for each preview."""

import json
from typing import Any

from messagestore_core.contract.run_document import (
    FilesDestination,
    KafkaDestination,
    ReplayTask,
    RunDocument,
    Selection,
)
from messagestore_core.contract.run_report import ReplayOutcome
from messagestore_core.store.audit import note, rows_of
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.folder import exists
from messagestore_jobs.context import Run
from messagestore_jobs.replay.state import digest

_REPLAY = "Replay"


def note_replay(run: Run, outcome: ReplayOutcome) -> ReplayOutcome:
    """Note an ended replay once in the audit of the store that was read; return the outcome unchanged."""
    document, store = run.document, run.store
    task = document.task
    assert isinstance(task, ReplayTask)
    if outcome.complete and exists(store):
        state, sent = table_state(store), outcome.progress
        counts = {
            "selected": outcome.selection.messages,
            "replayed": sent.replayed,
            "failed": sent.failed,
            "erased": sent.erased,
            "lost": sent.lost,
            "messagesAfter": state.messages,
            "deadLettersAfter": state.dead_letters,
        }
        fields = {"counts": counts, "bytes": outcome.selection.bytes, "once": True}
        if task.origin == "Messages":
            fields["version_before"] = outcome.selection.table_version
        note(store, document, _REPLAY if task.origin == "Messages" else "Redrive", _detail(document, task), **fields)
    return outcome


def note_preview(run: Run, selection_messages: int) -> None:
    """Note a dry run in the audit."""
    task = run.document.task
    assert isinstance(task, ReplayTask)
    note(run.store, run.document, "Preview", _detail(run.document, task), counts={"selected": selection_messages})


def redelivered(run: Run) -> int:
    """How many messages all rounds of a replay sent."""
    task, resource = run.document.task, run.document.resource
    assert isinstance(task, ReplayTask)
    own = f"{resource.kind}/{resource.namespace}/{resource.name}"
    rows = [row for row in rows_of(run.store, _REPLAY) if row["actor"] == own]
    return sum(row["counts"].get("replayed") or 0 for row in rows if _round_of(row["rules"], task.job_id))


def _round_of(rules: str, job_id: str) -> bool:
    try:
        return str(json.loads(rules)["job"]).rpartition("-")[0] == job_id
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _detail(document: RunDocument, task: ReplayTask) -> dict[str, Any]:
    """The names of selecting fields, and a digest of the task, as values may name what is erased one day."""
    given = Selection.model_dump(task.select, by_alias=True, exclude_defaults=True, exclude={"held_back"})
    return {
        "job": task.job_id,
        "origin": task.origin,
        "select": sorted(given),
        "destination": _destination(task),
        "asked": digest(task, document.table.uri),
    }


def _destination(task: ReplayTask) -> str:
    to = task.destination
    if isinstance(to, FilesDestination):
        return to.uri
    return f"kafka:{to.topic}" if isinstance(to, KafkaDestination) else to.table.uri
