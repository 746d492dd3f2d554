"""Records each stream's runs in a policy's status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from messagestore_core.contract.run_report import EraseOutcome, PurgeOutcome
from messagestore_operator.api.retentionpolicy_status import PolicyStreamStatus
from messagestore_operator.decide.actions import EmitEvent
from messagestore_operator.decide.run_lifecycle import EndedRun, RunStage
from messagestore_operator.reasons import Reason
from messagestore_operator.status.facts import StreamResult
from messagestore_operator.status.policy import policy_stream, with_erasure
from messagestore_operator.status.runs import api_error, ended_run
from messagestore_operator.status.stream import table_status


def recorded(before: PolicyStreamStatus, stage: RunStage) -> PolicyStreamStatus:
    """A stream's entry with its run in progress, or with the outcome of its ended run."""
    if stage.ended is None:
        return before.model_copy(update={"current_run": stage.current})
    ended = stage.ended
    after = _with_outcome(before, ended) if ended.state == "Succeeded" else before
    changes: dict[str, object] = {
        "current_run": None,
        "last_run": ended_run(ended.run, ended.state, ended.at, ended.error),
        "error": api_error(ended.error) if ended.state == "Failed" else None,
    }
    outcome = ended.report.outcome if ended.report else None
    if isinstance(outcome, PurgeOutcome | EraseOutcome):
        changes["table"] = table_status(outcome.table)
    return after.model_copy(update=changes)


def purge_events(before: PolicyStreamStatus | None, after: PolicyStreamStatus) -> Iterator[EmitEvent]:
    """An Event when a purge was done, or a preview waits for approval."""
    purge, known = after.last_purge, before.last_purge if before else None
    if purge is not None and (known is None or known.run != purge.run):
        words = f"stream {after.name}: messages were removed or scrubbed; status.streams counts them"
        yield EmitEvent("Normal", Reason.PURGED, words)
    unchanged = before is not None and before.awaiting_approval and before.preview == after.preview
    if after.awaiting_approval and after.preview is not None and not unchanged:
        words = f"stream {after.name}: a preview waits for its approval; status.streams has its id"
        yield EmitEvent("Normal", Reason.AWAITING_APPROVAL, words)


def _with_outcome(before: PolicyStreamStatus, ended: EndedRun) -> PolicyStreamStatus:
    outcome = ended.report.outcome if ended.report else None
    if isinstance(outcome, PurgeOutcome):
        after = policy_stream(StreamResult(before.name, ended.report), before)
        changes = {"preview": after.preview, "last_purge": after.last_purge}
        return before.model_copy(update={**changes, "awaiting_approval": after.awaiting_approval})
    if isinstance(outcome, EraseOutcome) and before.last_purge is not None:
        return before.model_copy(update={"last_purge": with_erasure(before.last_purge, outcome, ended.at)})
    return before


def erasure_due(entry: PolicyStreamStatus) -> datetime | None:
    """By when the bytes of erased messages must be deleted; None if none are left."""
    purge = entry.last_purge
    if purge is None or purge.erase_due_by is None:
        return None
    due = purge.erase_due_by.datetime
    return due if purge.erased_at is None or due > purge.erased_at.datetime else None
