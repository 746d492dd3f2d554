"""The status of a RetentionPolicy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from messagestore_core.contract import run_report as contract
from messagestore_core.contract.run_report import PurgeOutcome
from messagestore_operator.api import RetentionPolicy, RetentionPolicyStatus
from messagestore_operator.api.retentionpolicy_status import LastPurge, PolicyPhase, PolicyStreamStatus, Preview
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import (
    ConditionValue,
    conditions,
    generation,
    is_terminal,
    stuck,
    under_way,
    well,
)
from messagestore_operator.status.facts import StreamResult, error_of
from messagestore_operator.status.runs import api_error, finished_run
from messagestore_operator.status.times import clock_time, message_time
from messagestore_operator.status.words import count, few
from messagestore_operator.translate.annotations import APPROVED_PREVIEW


def policy_status(
    policy: RetentionPolicy, now: datetime, results: Sequence[StreamResult] = ()
) -> RetentionPolicyStatus:
    """What came of a policy.

    Args:
        policy: with its status so far, if it has one.
        now: the clock.
        results: one a stream, in the policy's order; none where it did not run.
    """
    before = policy.status or RetentionPolicyStatus()
    known = {stream.name: stream for stream in before.streams}
    streams = tuple(policy_stream(result, known.get(result.stream)) for result in results) or before.streams
    return RetentionPolicyStatus(
        observed_generation=generation(policy),
        conditions=conditions(policy, policy.status, _condition_values(policy, results), now),
        run_number=before.run_number,
        phase=_phase(policy, results),
        streams=streams,
        **over_all(policy, streams),
        next_run_time=before.next_run_time,
    )


def policy_stream(result: StreamResult, before: PolicyStreamStatus | None) -> PolicyStreamStatus:
    """One stream's part of the status, with what came of a run on it; what that does not tell stays as it was."""
    before = before or PolicyStreamStatus(name=result.stream)
    outcome = result.report.outcome if result.report else None
    preview, purge, waiting = None, None, before.awaiting_approval
    if isinstance(outcome, PurgeOutcome):
        preview, purge = _preview(outcome.preview), _last_purge(outcome.purge) if outcome.purge else None
        waiting = outcome.awaiting_approval
    return PolicyStreamStatus(
        name=result.stream,
        preview=preview or before.preview,
        last_purge=purge or before.last_purge,
        last_run=finished_run(result.report, "purge") if result.report else before.last_run,
        error=api_error(error_of(result.report, result.error)),
        awaiting_approval=waiting,
    )


def _preview(preview: contract.Preview) -> Preview:
    return Preview(
        id=preview.id,
        table_version=preview.table_version,
        as_of=clock_time(preview.as_of),
        messages=preview.messages,
        bytes=preview.bytes,
        oldest=message_time(preview.oldest),
        newest=message_time(preview.newest),
        by_rule=preview.by_rule,
        held=preview.held,
        undecided=preview.undecided,
    )


def _last_purge(purge: contract.Purged) -> LastPurge:
    return LastPurge(
        run=purge.run,
        at=clock_time(purge.at),
        table_version_before=purge.table_version_before,
        table_version_after=purge.table_version_after,
        purged=purge.purged,
        archived=purge.archived,
        scrubbed=purge.scrubbed,
        held=purge.held,
        dead_letters=purge.dead_letters,
        erased_at=clock_time(purge.erased_at),
        erase_due_by=clock_time(purge.erase_due_by),
        not_erased=purge.not_erased,
    )


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


def _phase(policy: RetentionPolicy, results: Sequence[StreamResult]) -> PolicyPhase:
    errors = [found for result in results if (found := error_of(result.report, result.error))]
    if errors:
        return "Stalled" if all(map(is_terminal, errors)) else "Failing"
    if policy.spec.suspend:
        return "Suspended"
    if not results:
        return "Pending"
    return "AwaitingApproval" if any(outcome.awaiting_approval for outcome in _outcomes(results)) else "Idle"


def _condition_values(policy: RetentionPolicy, results: Sequence[StreamResult]) -> list[ConditionValue]:
    failed = [(result.stream, found) for result in results if (found := error_of(result.report, result.error))]
    if failed:
        _, first = failed[0]
        message = few([f"stream {stream}: {error.message}" for stream, error in failed])
        state = stuck if all(is_terminal(error) for _, error in failed) else under_way
        return state(first.reason, message)
    if policy.spec.suspend:
        return well(Reason.SUSPENDED, "no run starts while spec.suspend is true")
    if not results:
        return under_way(Reason.PENDING, "no run has started yet")
    return well(*summary(policy, [policy_stream(result, None) for result in results]))


def summary(policy: RetentionPolicy, streams: Sequence[PolicyStreamStatus]) -> tuple[Reason, str]:
    """What would go, waits for approval, or has gone, by the last previews and purges of the streams."""
    previews = [stream.preview for stream in streams if stream.preview]
    selected = sum(preview.messages for preview in previews)
    held = sum(preview.held for preview in previews)
    undecided = sum(preview.undecided for preview in previews)
    kept = (f", {held} held" if held else "") + (f", {undecided} stay undecided" if undecided else "")
    waiting = [stream.preview.id for stream in streams if stream.preview and stream.awaiting_approval]
    if waiting:
        return Reason.AWAITING_APPROVAL, (
            f"{count(selected, 'message')} would go{kept}; approve with annotation "
            f"{APPROVED_PREVIEW}: {few(waiting, ' or ')}"
        )
    verb = "be scrubbed" if policy.spec.action == "Scrub" else "go"
    if policy.spec.mode == "DryRun":
        return Reason.PREVIEWED, f"{count(selected, 'message')} would {verb}{kept}; mode is DryRun"
    return _done([stream.last_purge for stream in streams if stream.last_purge], kept)


def _done(purges: list[LastPurge], kept: str) -> tuple[Reason, str]:
    purged = sum(purge.purged for purge in purges)
    scrubbed = sum(purge.scrubbed for purge in purges)
    dead_letters = sum(purge.dead_letters for purge in purges)
    parts = [
        f"{count(purged, 'message')} removed" if purged else "",
        f"{sum(purge.archived for purge in purges)} archived" if any(purge.archived for purge in purges) else "",
        f"{count(scrubbed, 'message')} scrubbed" if scrubbed else "",
        f"{count(dead_letters, 'dead letter')} removed" if dead_letters else "",
    ]
    done = ", ".join(part for part in parts if part)
    if not done:
        return Reason.NOTHING_TO_REMOVE, f"nothing to remove{kept}"
    return (Reason.SCRUBBED if scrubbed and not purged else Reason.PURGED), f"{done}{kept}"


def _outcomes(results: Sequence[StreamResult]) -> list[PurgeOutcome]:
    found = [result.report.outcome for result in results if result.report]
    return [outcome for outcome in found if isinstance(outcome, PurgeOutcome)]
