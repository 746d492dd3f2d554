"""Decides about a RetentionPolicy: each round makes one run for each stream, a few at a time.

docs/operator.md#phases shows its states, ``blockers.POLICY`` what keeps it from its runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from messagestore_core.clock import shifted
from messagestore_core.contract.base import RunError
from messagestore_core.contract.purge import EraseOutcome, PurgeOutcome
from messagestore_operator.api import MessageStream, RetentionPolicy, RetentionPolicyStatus
from messagestore_operator.api.retentionpolicy_status import PolicyStreamStatus
from messagestore_operator.api.status import FinishedRun
from messagestore_operator.decide.actions import Action, CreateRun, Decision, EmitEvent, decision
from messagestore_operator.decide.blockers import MOST_STREAMS, POLICY, blocker_of_purge, first, held_back
from messagestore_operator.decide.documents import policy_run
from messagestore_operator.decide.events import condition_events, run_events
from messagestore_operator.decide.garbage_collection import cleanup
from messagestore_operator.decide.lasting import Lasting, lasting_of_runs
from messagestore_operator.decide.run_lifecycle import (
    NO_RUN,
    DesiredRun,
    EndedRun,
    PlannedRun,
    RunStage,
    follow,
    launch,
    reserve,
)
from messagestore_operator.decide.snapshot import PolicySnapshot, RunKind
from messagestore_operator.decide.tables import table_key, writes
from messagestore_operator.decide.trigger import new_request, next_attempt, pass_over_missed, retry_at, scheduled
from messagestore_operator.status.conditions import condition_of, generation
from messagestore_operator.status.facts import Outlook, StreamResult
from messagestore_operator.status.policy import BLOCKED, StreamView, policy_stream, with_erasure, with_view
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import api_error, broke_off, broke_off_as_it_is, failed, failed_as_it_is
from messagestore_operator.status.stream import table_status
from messagestore_operator.status.words import clock_time
from messagestore_operator.translate.annotations import approvals, run_requested

_GONE = RunError(reason=Reason.DELETING, message="the RetentionPolicy is being deleted")
_LONGEST_LEAD = timedelta(hours=3)
"""An erasure starts before its deadline, as it is to be done by then; a run does it up to twice as long before."""
_LEFT = RunError(reason=Reason.SPEC_CHANGED, message="the policy no longer has this stream")


def recorded(before: PolicyStreamStatus, stage: RunStage) -> PolicyStreamStatus:
    """A stream's entry with its run in progress, or with the outcome of its ended run."""
    if stage.ended is None:
        return before.model_copy(update={"current_run": stage.current})
    ended = stage.ended
    after = _with_outcome(before, ended) if ended.state == "Succeeded" else before
    changes: dict[str, object] = {
        "current_run": None,
        "last_run": ended.finished_run(),
        "error": api_error(ended.error) if ended.state == "Failed" else None,
    }
    if ended.run.kind == "erase" and ended.state == "Succeeded" and _is_broken_purge(before.last_run):
        # It took that purge's turn, which is due again.
        changes["round"] = max(before.round - 1, 0)
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


def _blocked_event(before: RetentionPolicyStatus, after: RetentionPolicyStatus) -> list[EmitEvent]:
    """An Event when messages have waited for a subscription for too long."""
    blocked = condition_of(after, BLOCKED)
    if blocked is None or condition_of(before, BLOCKED) is not None:
        return []
    return [EmitEvent("Warning", Reason.RETENTION_BLOCKED, blocked.message)]


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


def _erasure_begins(entry: PolicyStreamStatus, policy: RetentionPolicy) -> datetime | None:
    """When the next erasure starts; None if none is due at all."""
    due, last = erasure_due(entry), entry.last_run
    if due is None or (last is not None and last.kind == "erase" and last.state == "Succeeded"):
        # The last one came too early for what is left.
        return due
    return shifted(due, -min(policy.spec.erasure.within.timedelta / 20, _LONGEST_LEAD))


@dataclass(frozen=True)
class StreamPurge:
    """One stream of a policy: its entry in the status, the stage of its run, and what blocks it."""

    entry: PolicyStreamStatus
    stage: RunStage
    stream: MessageStream | None
    blocker: RunError | None = None
    retry: datetime | None = None
    requeue_at: tuple[datetime, ...] = ()
    lasting: RunError | None = None


@dataclass(frozen=True)
class _Round:
    """The status, with a new round if the trigger asks for one, and when it will ask next."""

    status: RetentionPolicyStatus
    next: datetime | None = None
    events: tuple[EmitEvent, ...] = ()


def decide_policy(snapshot: PolicySnapshot) -> Decision:
    """Decide about a policy."""
    policy, before = snapshot.policy, snapshot.policy.status or RetentionPolicyStatus()
    refusal = first(POLICY, snapshot)
    now_round = _round(snapshot, before, refusal)
    purges = [_watched(snapshot, entry) for entry in _entries(snapshot, before, now_round.status)]
    purges, number = _launched(snapshot, purges, now_round.status, refusal)
    purges = [_with_lasting(snapshot, before, purge) for purge in purges]
    known = now_round.status.model_copy(
        update={"streams": tuple(purge.entry for purge in purges), "run_number": number or before.run_number}
    )
    views = [
        StreamView(one.entry, Outlook(one.blocker, one.stage.trouble, one.retry, lasting=one.lasting)) for one in purges
    ]
    outlook, blocked_after = Outlook(refusal, next_run=now_round.next), snapshot.defaults.retention_blocked_after
    status = with_view(policy, before, known, outlook, views, snapshot.now, blocked_after)
    return _decided(snapshot, before, status, purges, now_round)


def _decided(
    snapshot: PolicySnapshot,
    before: RetentionPolicyStatus,
    status: RetentionPolicyStatus,
    purges: Sequence[StreamPurge],
    now_round: _Round,
) -> Decision:
    policy, earlier = snapshot.policy, {entry.name: entry for entry in before.streams}
    actions: list[Action] = [*now_round.events]
    for purge in purges:
        old = earlier.get(purge.entry.name)
        actions += [*run_events(old.current_run if old else None, purge.stage), *purge_events(old, purge.entry)]
        actions += purge.stage.actions
    actions += [*condition_events(before, status), *_blocked_event(before, status)]
    runs_before = [entry.current_run for entry in before.streams]
    actions += cleanup(snapshot, runs_before, [purge.entry.current_run for purge in purges])
    at_once = snapshot.now if any(purge.stage.ended for purge in purges) else None
    requeue_at = [*(time for purge in purges for time in purge.requeue_at), now_round.next, at_once]
    return decision(policy, policy.status, status, actions, requeue_at)


def _with_lasting(snapshot: PolicySnapshot, before: RetentionPolicyStatus, purge: StreamPurge) -> StreamPurge:
    """The stream with the failure that only somebody can end."""
    policy, entry = snapshot.policy, purge.entry
    earlier = next((one for one in before.streams if one.name == entry.name), None)
    lasts = Lasting()
    if not policy.spec.suspend:
        lasts = lasting_of_runs(snapshot, policy, earlier, entry, purge.blocker)
    entry = entry.model_copy(update={"lasting_failure": lasts.failure})
    requeue_at = (*purge.requeue_at, *([lasts.stalls_at] if lasts.stalls_at else []))
    return replace(purge, entry=entry, lasting=lasts.error, requeue_at=requeue_at)


def _round(snapshot: PolicySnapshot, before: RetentionPolicyStatus, refusal: RunError | None) -> _Round:
    """Begin a new round if one is due. Rounds that were due while the policy could not run count as one."""
    policy, schedule = snapshot.policy, snapshot.policy.spec.trigger.schedule
    if refusal is not None or policy.spec.suspend or policy.metadata.deletion_timestamp is not None:
        return _Round(before)
    times = scheduled(schedule, policy, before, snapshot.now) if schedule else None
    upcoming = times.next if times else None
    if times is not None and times.missed is not None:
        skipped, events = pass_over_missed(times, before)
        return _Round(skipped, upcoming, tuple(events))
    due = times.due if times else None
    if due is None and new_request(policy, before) is None:
        return _Round(before, upcoming)
    changes = {
        "round": before.round + 1,
        "last_schedule_time": clock_time(due) or before.last_schedule_time,
        "last_handled_request": run_requested(policy) or before.last_handled_request,
    }
    return _Round(before.model_copy(update=changes), upcoming)


def _entries(
    snapshot: PolicySnapshot, before: RetentionPolicyStatus, status: RetentionPolicyStatus
) -> Iterator[PolicyStreamStatus]:
    """One entry for each stream, in the policy's order; then former streams whose run goes on."""
    known = {entry.name: entry for entry in before.streams}
    spec = snapshot.policy.spec
    names = [ref.name for ref in spec.stream_refs] or sorted(stream.metadata.name for stream in snapshot.streams)
    for name in names[:MOST_STREAMS]:
        # A stream that is added between two rounds waits for the next.
        yield known.pop(name) if name in known else PolicyStreamStatus(name=name, round=before.round)
    left = MOST_STREAMS - len(names)
    yield from [entry for entry in known.values() if entry.current_run is not None][: max(left, 0)]


def _watched(snapshot: PolicySnapshot, entry: PolicyStreamStatus) -> StreamPurge:
    policy = snapshot.policy
    stream = next((one for one in snapshot.streams if one.metadata.name == entry.name), None)
    abort = None
    if policy.metadata.deletion_timestamp is not None:
        abort = _GONE
    elif stream is None:
        abort = _LEFT
    desired = DesiredRun(generation(policy), wanted=not policy.spec.suspend, abort=abort)
    stage = follow(snapshot, entry.current_run, desired)
    return StreamPurge(recorded(entry, stage), stage, stream, requeue_at=stage.requeue_at)


def _launched(
    snapshot: PolicySnapshot, purges: Sequence[StreamPurge], status: RetentionPolicyStatus, refusal: RunError | None
) -> tuple[list[StreamPurge], int]:
    """Launch the streams' next runs, up to the limit of concurrent runs; also returns the last run number."""
    number = status.run_number or 0
    # Also runs that are reserved, and wait for their table.
    busy = sum(purge.stage.current is not None for purge in purges)
    launched: list[StreamPurge] = []
    for purge in purges:
        if purge.stage.ended is not None or (purge.stage.current is not None and not purge.stage.unlaunched):
            launched.append(purge)
            continue
        after = _one(snapshot, purge, status, refusal, number, may_start=busy < snapshot.defaults.streams_at_once)
        current = after.entry.current_run
        busy += (current is not None) - (purge.stage.current is not None)
        if current is not None:
            number = max(number, current.number or 0)
        for slot in (action.slot for action in after.stage.actions if isinstance(action, CreateRun)):
            snapshot = replace(snapshot, run_queue=snapshot.run_queue.taken(slot)) if slot else snapshot
        launched.append(after)
    return launched, number


def _one(
    snapshot: PolicySnapshot,
    purge: StreamPurge,
    status: RetentionPolicyStatus,
    refusal: RunError | None,
    number: int,
    *,
    may_start: bool,
) -> StreamPurge:
    """A stream without a run in progress: why none can start, when one is due, or its launch."""
    policy, stream = snapshot.policy, purge.stream
    idle = _idle(purge, status)
    if stream is None:
        missing = RunError(reason=Reason.STREAM_MISSING, message=f"there is no MessageStream {purge.entry.name}")
        return replace(idle, blocker=missing)
    deleted = policy.metadata.deletion_timestamp is not None or stream.metadata.deletion_timestamp is not None
    if refusal is not None or policy.spec.suspend or not snapshot.can_run or deleted:
        return idle
    blocker = blocker_of_purge(stream, snapshot)
    due, current = _due(snapshot, purge.entry, status), purge.entry.current_run
    if blocker is not None and (due is not None or current is not None):
        return replace(idle, blocker=blocker)
    if (current is not None or isinstance(due, str)) and (held := held_back(snapshot)) is not None:
        return replace(idle, blocker=held.error, requeue_at=(held.until,) if held.until else ())
    if current is None:
        if isinstance(due, datetime):
            return replace(idle, requeue_at=(due,), retry=due)
        if due is None or not may_start:
            return idle
        answers = {"round": status.round} if due == "purge" else {}
        purge = replace(purge, entry=purge.entry.model_copy(update=answers))
        attempt = next_attempt(purge.entry.last_run, policy, snapshot.defaults)
        current = reserve(snapshot, policy, due, number + 1, attempt)
    tables = [table_key(stream)] if writes(policy, current.kind or "") else []
    readers = _readers(snapshot, purge.entry, stream) if current.kind == "erase" else []
    make = partial(policy_run, policy, stream, current)
    stage = launch(snapshot, PlannedRun(policy, current, tables, make, [stream], readers=readers))
    entry = purge.entry.model_copy(update={"current_run": stage.current})
    return StreamPurge(entry, stage, stream, requeue_at=stage.requeue_at)


def _readers(snapshot: PolicySnapshot, entry: PolicyStreamStatus, stream: MessageStream) -> list[str]:
    """The runs that must end before an erasure: all replays but continuous ones that know its tombstones."""
    tombstones = entry.last_purge.tombstones_version if entry.last_purge else None
    every = snapshot.readers.get(table_key(stream), ())
    return [reader.words for reader in every if not reader.lets_erase(tombstones)]


def _due(
    snapshot: PolicySnapshot, entry: PolicyStreamStatus, status: RetentionPolicyStatus
) -> RunKind | datetime | None:
    """The kind of run that is due on a stream, or when one will be; None if none will."""
    policy, last, now = snapshot.policy, entry.last_run, snapshot.now
    erasure, broken = _erasure_begins(entry, policy), last if broke_off_as_it_is(last, policy) else None
    if broken is not None and entry.round >= status.round:
        at = retry_at(broken, policy, snapshot.defaults, now)
        if (at is None or at <= now) and broken.kind == "purge" and erasure is not None and erasure <= now:
            # A purge that fails again and again, or for good, delays no erasure.
            return "erase"
        if at is None:
            return erasure if erasure is not None and erasure > now else None
        if at > now:
            return at
        return "erase" if broken.kind == "erase" else "purge"
    if last is not None and last.kind == "purge" and _cut_short(last, policy):
        return "purge"
    if erasure is not None and erasure <= now and (broken is None or broken.kind != "erase"):
        # Nor do rounds that are due whenever a purge ends.
        return "erase"
    return "purge" if entry.round < status.round or _is_approved(entry, policy) else erasure


def _idle(purge: StreamPurge, status: RetentionPolicyStatus) -> StreamPurge:
    """A stream without a run. If one was reserved and not created, its round stays open."""
    changes: dict[str, object] = {"current_run": None}
    current = purge.entry.current_run
    if current is not None and current.kind == "purge":
        changes["round"] = max(min(purge.entry.round, status.round - 1), 0)
    return replace(purge, entry=purge.entry.model_copy(update=changes), stage=NO_RUN, requeue_at=())


def _is_approved(entry: PolicyStreamStatus, policy: RetentionPolicy) -> bool:
    """Whether the preview that waits was approved."""
    return entry.awaiting_approval and entry.preview is not None and entry.preview.id in approvals(policy)


def _cut_short(last: FinishedRun, policy: RetentionPolicy) -> bool:
    """Whether a run is due again without a new round: it was cancelled, or failed with another spec."""
    return last.state == "Cancelled" or (failed(last) and not failed_as_it_is(last, policy))


def _is_broken_purge(last: FinishedRun | None) -> bool:
    return last is not None and last.kind == "purge" and broke_off(last)
