"""The status of a RetentionPolicy: its figures, then its phase and conditions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from messagestore_core.contract import purge as contract
from messagestore_core.contract.base import RunError
from messagestore_core.contract.purge import EraseOutcome, PurgeOutcome
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import RetentionPolicy, RetentionPolicyStatus
from messagestore_operator.api.retentionpolicy_status import LastPurge, PolicyPhase, PolicyStreamStatus, Preview, Unsent
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.names import APPROVED_PREVIEW, RUN_REQUESTED
from messagestore_operator.status.conditions import (
    TERMINAL,
    ConditionValue,
    after_error,
    ending_of,
    failure_of,
    of_run,
    stuck,
    suspended,
    under_way,
    well,
    with_conditions,
)
from messagestore_operator.status.facts import Outlook, StreamResult
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import api_error, failed_as_it_is, finished_run, is_past
from messagestore_operator.status.words import clock_time, count, few, in_status, message_time
from messagestore_operator.translate.annotations import approvals

BLOCKED = "RetentionBlocked"
"""The condition of a policy whose rules have waited for subscriptions for too long."""
BLOCKED_AFTER = timedelta(days=7)
_MOST_SUBSCRIPTIONS = 64
_WAITS_FOR_TIME = (Reason.PAUSED, Reason.WAITING_FOR_WINDOW)
_WAITS_FOR_TURN = (Failure.TABLE_BUSY, Reason.WAITING_FOR_ROOM)


def policy_stream(result: StreamResult, before: PolicyStreamStatus | None) -> PolicyStreamStatus:
    """One stream's entry in the status, with the outcome of a run on it; fields that it doesn't report stay."""
    before = before or PolicyStreamStatus(name=result.stream)
    outcome = result.report.outcome if result.report else None
    preview, purge, waiting = None, None, before.awaiting_approval
    if isinstance(outcome, PurgeOutcome):
        preview = _preview(outcome.preview)
        purge = in_status(LastPurge, outcome.purge, preview=outcome.preview.id) if outcome.purge else None
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
    changes: dict[str, object] = {"last_run": finished_run(erasure, "erase")} if stream.error is None else {}
    if isinstance(erasure.outcome, EraseOutcome) and stream.last_purge is not None and erasure.finished_at is not None:
        changes["last_purge"] = with_erasure(stream.last_purge, erasure.outcome, erasure.finished_at)
    return stream.model_copy(update=changes)


def with_erasure(purge: LastPurge, outcome: EraseOutcome, ended_at: datetime) -> LastPurge:
    """The last purge after a run that erased what was due; another policy's run may have erased it before."""
    if outcome.erased_at is None and outcome.erase_due_by is not None:
        return purge.model_copy(update={"erase_due_by": clock_time(outcome.erase_due_by)})
    due = clock_time(outcome.erase_due_by)
    erased = {"erased_at": clock_time(ended_at), "erase_due_by": due, "possible_copies": outcome.not_erased}
    return purge.model_copy(update=erased)


def _preview(preview: contract.Preview) -> Preview:
    subscriptions = tuple(in_status(Unsent, one) for one in preview.subscriptions[:_MOST_SUBSCRIPTIONS])
    oldest, newest = message_time(preview.oldest), message_time(preview.newest)
    return in_status(Preview, preview, oldest=oldest, newest=newest, subscriptions=subscriptions)


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


@dataclass(frozen=True)
class StreamView:
    """One stream of a policy: its entry in the status, and the outlook for its runs."""

    entry: PolicyStreamStatus
    outlook: Outlook


def with_view(
    policy: RetentionPolicy,
    before: RetentionPolicyStatus,
    status: RetentionPolicyStatus,
    outlook: Outlook,
    streams: Sequence[StreamView],
    now: datetime,
    blocked_after: timedelta = BLOCKED_AFTER,
) -> RetentionPolicyStatus:
    """The status with its phase, conditions and sums.

    Args:
        status: the status with all other fields.
        outlook: of the policy itself; its next run is the next round.
        streams: in the policy's order.
        blocked_after: how long messages may wait for a subscription.
    """
    entries = [_with_error(stream) for stream in streams]
    times = [one.next_run for one in (outlook, *(stream.outlook for stream in streams)) if one.next_run]
    changes = {
        "streams": tuple(entries),
        "phase": _phase(policy, streams, outlook),
        "next_run_time": clock_time(min(times, default=None)),
        **over_all(policy, entries),
    }
    values = [*_condition_values(policy, streams, outlook), *_blocked(entries, blocked_after)]
    return with_conditions(policy, before, status.model_copy(update=changes), values, now)


def _condition_values(policy: RetentionPolicy, streams: Sequence[StreamView], outlook: Outlook) -> list[ConditionValue]:
    if outlook.blocker is not None:
        return after_error(outlook.blocker)
    current = next((stream.entry.current_run for stream in streams if stream.entry.current_run), None)
    if policy.spec.suspend:
        return suspended(current)
    if problems := _problems(policy, streams):
        message = few([f"stream {name}: {error.message}" for name, error, _ in problems])
        if all(error.reason == Reason.PAUSED for _, error, _ in problems):
            return well(Reason.PAUSED, message)
        return (stuck if _is_stalled(streams, problems) else under_way)(problems[0][1].reason, message)
    if (approved := _approved_run(policy, streams)) is not None:
        return well(Reason.RUNNING, approved)
    if wrong := _wrong_approval(policy, streams):
        return well(Reason.WRONG_APPROVAL, wrong)
    if any(stream.entry.preview for stream in streams):
        return well(*_summary(policy, [stream.entry for stream in streams]))
    return _of_beginning(policy, streams, current, outlook.next_run)


def _blocked(streams: Sequence[PolicyStreamStatus], blocked_after: timedelta) -> list[ConditionValue]:
    """The condition if, at the last preview of a stream, messages had waited for a subscription for too long."""
    waits = [
        f"stream {stream.name}: {count(one.waiting, 'message')} wait for {_whom(one)}, the first since "
        f"{one.waiting_since}; {_state_of(one)}"
        for stream in streams
        if stream.preview is not None and stream.preview.as_of is not None
        for one in stream.preview.subscriptions
        if one.waiting_since is not None and stream.preview.as_of.datetime - one.waiting_since.datetime >= blocked_after
    ]
    return [ConditionValue(BLOCKED, "True", Reason.RETENTION_BLOCKED, few(waits))] if waits else []


def _whom(one: Unsent) -> str:
    kind, colon, name = one.name.partition(":")
    return f"{kind} {name}" if colon else f"ReplayJob {one.name}"


def _state_of(one: Unsent) -> str:
    if one.global_position is None:
        return "it has no cursor in the stream's store"
    return f"its cursor is at {one.global_position}"


def _is_stalled(streams: Sequence[StreamView], problems: Sequence[tuple[str, RunError, bool]]) -> bool:
    """Whether no retry helps any stream with a problem, or a failure lasts on each stream of the policy."""
    lasting = {stream.entry.name for stream in streams if stream.outlook.lasting}
    final = {name for name, error, _ in problems if error.reason in TERMINAL}
    names = {name for name, _, _ in problems}
    return names == final or {stream.entry.name for stream in streams} == final | lasting


def _problems(policy: RetentionPolicy, streams: Sequence[StreamView]) -> list[tuple[str, RunError, bool]]:
    """The streams that the policy can't be applied to, why, and whether they only wait; those that wait come last."""
    errors = [(stream, _problem(policy, stream)) for stream in streams]
    problems = [(stream.entry.name, error, _waits(stream, error)) for stream, error in errors if error is not None]
    return sorted(problems, key=lambda problem: problem[2])


def _waits(stream: StreamView, error: RunError) -> bool:
    """Whether nothing is wrong: the stream waits for its time, or for its turn."""
    turn = error.reason in _WAITS_FOR_TURN and error is not stream.outlook.blocker
    return turn or error.reason in _WAITS_FOR_TIME


def _problem(policy: RetentionPolicy, stream: StreamView) -> RunError | None:
    entry, outlook = stream.entry, stream.outlook
    if outlook.lasting is not None:
        return failure_of(outlook.lasting, entry.current_run, outlook.next_run)
    error = outlook.blocker or ending_of(entry.current_run) or outlook.trouble
    if error is not None:
        return error
    last = entry.last_run
    if last is None or last.error is None or not failed_as_it_is(last, policy):
        return None
    if is_past(last, entry.current_run, policy):
        return None
    # No run tries again what no retry helps; the next run is then an erasure.
    next_try = None if last.error.reason in TERMINAL else outlook.next_run
    return failure_of(last.error, entry.current_run, next_try)


def _wrong_approval(policy: RetentionPolicy, streams: Sequence[StreamView]) -> str | None:
    """The message if somebody approved another preview than the one that waits; else None."""
    carried_out = {stream.entry.last_purge.preview for stream in streams if stream.entry.last_purge}
    approved = [preview for preview in approvals(policy) if preview not in carried_out]
    waiting = [stream.entry.preview.id for stream in streams if stream.entry.awaiting_approval and stream.entry.preview]
    known = {stream.entry.preview.id for stream in streams if stream.entry.preview}
    if not approved or not waiting or not known.isdisjoint(approved):
        return None
    given, awaits = few(approved, ", "), few(waiting, " or ")
    return f"annotation {APPROVED_PREVIEW} approves preview {given}; the preview that awaits approval is {awaits}"


def _of_beginning(
    policy: RetentionPolicy, streams: Sequence[StreamView], current: CurrentRun | None, upcoming: datetime | None
) -> list[ConditionValue]:
    if current is not None:
        return of_run(current, "evaluates the rules")
    if (waits := _what_it_waits_for(policy, streams, upcoming)) is not None:
        return well(Reason.WAITING, waits)
    return under_way(Reason.PENDING, "no run has started yet")


def _what_it_waits_for(policy: RetentionPolicy, streams: Sequence[StreamView], upcoming: datetime | None) -> str | None:
    """What the first run waits for; None if it is due."""
    if not streams and policy.spec.stream_selector is not None:
        return "no MessageStream has the labels of spec.streamSelector"
    if upcoming is not None:
        return f"the first run is at {clock_time(upcoming)}"
    if policy.spec.trigger.manual is not None:
        return f"a run starts when annotation {RUN_REQUESTED} changes"
    return None


def _phase(policy: RetentionPolicy, streams: Sequence[StreamView], outlook: Outlook) -> PolicyPhase:
    if outlook.blocker is not None:
        return "Stalled" if outlook.blocker.reason in TERMINAL else "Failing"
    if any(stream.outlook.lasting for stream in streams) and _is_stalled(streams, _problems(policy, streams)):
        return "Stalled"
    launched = [stream for stream in streams if stream.entry.current_run and stream.entry.current_run.launched_at]
    if launched:
        waits = policy.spec.approval == "Required" and not _approved(policy, launched)
        return "Previewing" if waits or policy.spec.mode == "DryRun" else "Running"
    if policy.spec.suspend:
        return "Suspended"
    problems = [error for _, error, waits in _problems(policy, streams) if not waits]
    if problems:
        return "Stalled" if all(error.reason in TERMINAL for error in problems) else "Failing"
    if any(stream.entry.awaiting_approval for stream in streams):
        return "AwaitingApproval"
    if any(stream.entry.current_run or stream.outlook.blocker for stream in streams):
        return "Pending"
    has_run = any(stream.entry.last_run for stream in streams)
    return "Idle" if has_run or _what_it_waits_for(policy, streams, outlook.next_run) is not None else "Pending"


def _approved_run(policy: RetentionPolicy, streams: Sequence[StreamView]) -> str | None:
    """The message while a run removes what was approved; else None."""
    for stream in streams:
        run, preview = stream.entry.current_run, stream.entry.preview
        if run and run.launched_at and stream.entry.awaiting_approval and preview and _approved(policy, [stream]):
            return f"run {run.name} removes what the approved preview {preview.id} selected"
    return None


def _approved(policy: RetentionPolicy, streams: Sequence[StreamView]) -> bool:
    approved = approvals(policy)
    waiting = (stream.entry.preview for stream in streams if stream.entry.awaiting_approval)
    return any(preview is not None and preview.id in approved for preview in waiting)


def _with_error(stream: StreamView) -> PolicyStreamStatus:
    """The entry with its error: why the policy can't be applied to the stream, or why its last run failed."""
    last = stream.entry.last_run
    known = last.error if last is not None and last.state == "Failed" else None
    return stream.entry.model_copy(update={"error": api_error(stream.outlook.blocker) or known})


def _summary(policy: RetentionPolicy, streams: Sequence[PolicyStreamStatus]) -> tuple[Reason, str]:
    """A summary of the last previews and purges of the streams."""
    previews = [stream.preview for stream in streams if stream.preview]
    selected = sum(preview.messages for preview in previews)
    held = sum(preview.held for preview in previews)
    undecided = sum(preview.undecided for preview in previews)
    kept = (f", {held} held" if held else "") + (f", {undecided} stay undecided" if undecided else "")
    kept += _unsent([one for preview in previews for one in preview.subscriptions])
    waiting = [stream.preview.id for stream in streams if stream.preview and stream.awaiting_approval]
    if waiting:
        return Reason.AWAITING_APPROVAL, (
            f"{count(selected, 'message')} would be removed{kept}; approve with annotation "
            f"{APPROVED_PREVIEW}: {few(waiting, ' or ')}"
        )
    verb = "be scrubbed" if policy.spec.action == "Scrub" else "be removed"
    if policy.spec.mode == "DryRun":
        return Reason.PREVIEWED, f"{count(selected, 'message')} would {verb}{kept}; mode is DryRun"
    return _summary_of_purges([stream.last_purge for stream in streams if stream.last_purge], kept)


def _unsent(subscriptions: Sequence[Unsent]) -> str:
    """How many messages wait for whom, and who misses how many."""
    waiting, missed = Counter[str](), Counter[str]()
    for one in subscriptions:
        waiting[one.name] += one.waiting
        missed[one.name] += one.missed
    waits = few([f"{number} wait for {name}" for name, number in waiting.items() if number], ", ")
    misses = few([f"{name} misses {number}" for name, number in missed.items() if number], ", ")
    return "".join(f", {words}" for words in (waits, misses) if words)


def _summary_of_purges(purges: list[LastPurge], kept: str) -> tuple[Reason, str]:
    purged = sum(purge.purged for purge in purges)
    scrubbed = sum(purge.scrubbed for purge in purges)
    dead_letters = sum(purge.dead_letters for purge in purges)
    parts = [
        f"{count(purged, 'message')} removed" if purged else "",
        f"{sum(purge.archived for purge in purges)} archived" if any(purge.archived for purge in purges) else "",
        f"{count(scrubbed, 'message')} scrubbed" if scrubbed else "",
        f"{count(dead_letters, 'dead letter')} removed" if dead_letters else "",
    ]
    words = ", ".join(part for part in parts if part)
    if not words:
        return Reason.NOTHING_TO_REMOVE, f"nothing to remove{kept}"
    return (Reason.SCRUBBED if scrubbed and not purged else Reason.PURGED), f"{words}{kept}"
