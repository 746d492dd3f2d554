"""The figures in the status of a RetentionPolicy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from messagestore_core.contract import run_report as contract
from messagestore_core.contract.run_report import EraseOutcome, PurgeOutcome, RunReport
from messagestore_operator.api import RetentionPolicy
from messagestore_operator.api.retentionpolicy_status import LastPurge, PolicyStreamStatus, Preview
from messagestore_operator.status.facts import StreamResult
from messagestore_operator.status.runs import api_error, finished_run
from messagestore_operator.status.times import clock_time, in_status, message_time
from messagestore_operator.status.words import count


def policy_stream(result: StreamResult, before: PolicyStreamStatus | None) -> PolicyStreamStatus:
    """One stream's entry in the status, with the outcome of a run on it; fields that it doesn't report stay."""
    before = before or PolicyStreamStatus(name=result.stream)
    outcome = result.report.outcome if result.report else None
    preview, purge, waiting = None, None, before.awaiting_approval
    if isinstance(outcome, PurgeOutcome):
        preview, purge = _preview(outcome.preview), in_status(LastPurge, outcome.purge) if outcome.purge else None
        waiting = outcome.awaiting_approval
    after = PolicyStreamStatus(
        name=result.stream,
        preview=preview or before.preview,
        last_purge=purge or before.last_purge,
        last_run=finished_run(result.report, "purge") if result.report else before.last_run,
        error=api_error(result.failure),
        awaiting_approval=waiting,
    )
    return _after_erasure(after, result.erasure) if result.erasure else after


def _after_erasure(stream: PolicyStreamStatus, erasure: RunReport) -> PolicyStreamStatus:
    changes: dict[str, object] = {"last_run": finished_run(erasure, "erase")}
    if isinstance(erasure.outcome, EraseOutcome) and stream.last_purge is not None and erasure.finished_at is not None:
        changes["last_purge"] = with_erasure(stream.last_purge, erasure.outcome, erasure.finished_at)
    return stream.model_copy(update=changes)


def with_erasure(purge: LastPurge, outcome: EraseOutcome, ended_at: datetime) -> LastPurge:
    """The last purge after a run that erased what was due; another policy's run may have erased it before."""
    if outcome.erased_at is None and outcome.erase_due_by is not None:
        return purge.model_copy(update={"erase_due_by": clock_time(outcome.erase_due_by)})
    due = clock_time(outcome.erase_due_by) or purge.erase_due_by
    erased = {"erased_at": clock_time(ended_at), "erase_due_by": due, "not_erased": outcome.not_erased}
    return purge.model_copy(update=erased)


def _preview(preview: contract.Preview) -> Preview:
    return in_status(Preview, preview, oldest=message_time(preview.oldest), newest=message_time(preview.newest))


def over_all(policy: RetentionPolicy, streams: Sequence[PolicyStreamStatus]) -> dict[str, Any]:
    """The fields of a policy's status that sum up its streams."""
    purges = [stream.last_purge for stream in streams if stream.last_purge]
    times = [purge.at for purge in purges if purge.at]
    return {
        "stream_summary": _stream_summary(policy, streams),
        "held": sum(stream.preview.held for stream in streams if stream.preview) if streams else None,
        "purged": sum(purge.purged for purge in purges) if purges else None,
        "last_purge_time": max(times, key=lambda time: time.datetime, default=None),
    }


def _stream_summary(policy: RetentionPolicy, streams: Sequence[PolicyStreamStatus]) -> str | None:
    names = [stream.name for stream in streams] or [ref.name for ref in policy.spec.stream_refs]
    if len(names) > 1:
        return count(len(names), "stream")
    return names[0] if names else None
