"""What people and tools read of a policy: its phase, its conditions, its sums over all streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api import MessageStream, RetentionPolicy, RetentionPolicyStatus
from messagestore_operator.api.retentionpolicy_status import PolicyPhase, PolicyStreamStatus
from messagestore_operator.decide.run_lifecycle import RunStage
from messagestore_operator.decide.snapshot import PolicySnapshot
from messagestore_operator.decide.trigger import failed_as_it_is
from messagestore_operator.reasons import TERMINAL, Reason
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    conditions,
    generation,
    stuck,
    under_way,
    well,
)
from messagestore_operator.status.policy import over_all, summary
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.times import clock_time
from messagestore_operator.status.words import few
from messagestore_operator.translate import APPROVED_PREVIEW, approved_preview
from messagestore_operator.translate.annotations import RUN_REQUESTED

_TURNS = (Reason.PAUSED, Reason.TABLE_BUSY, Reason.WAITING_FOR_ROOM, Reason.WAITING_FOR_WINDOW)
"""Nothing is wrong with what waits for its turn or its time."""


@dataclass(frozen=True)
class StreamPurge:
    """One stream of a policy: what is remembered of it, where its run is, and what is in its way."""

    entry: PolicyStreamStatus
    stage: RunStage
    stream: MessageStream | None
    blocker: RunError | None = None
    retry: datetime | None = None
    looks: tuple[datetime, ...] = ()


def viewed(
    snapshot: PolicySnapshot,
    before: RetentionPolicyStatus,
    status: RetentionPolicyStatus,
    purges: Sequence[StreamPurge],
    refusal: RunError | None,
    upcoming: datetime | None,
) -> RetentionPolicyStatus:
    """The status with its phase, conditions and sums.

    Args:
        snapshot: what there is.
        before: the status so far.
        status: with all that is remembered.
        purges: one a stream.
        refusal: why the policy can't run at all.
        upcoming: when the schedule asks for the next run.
    """
    policy = snapshot.policy
    streams = [_with_blocker(purge) for purge in purges]
    values = _condition_values(policy, purges, refusal, upcoming)
    return status.model_copy(
        update={
            "streams": tuple(streams),
            "observed_generation": generation(policy),
            "conditions": conditions(policy, before, values, snapshot.now),
            "phase": _phase(policy, purges, refusal),
            "next_run_time": clock_time(min([*_retries(purges), *([upcoming] if upcoming else [])], default=None)),
            **over_all(policy, streams),
        }
    )


def _condition_values(
    policy: RetentionPolicy, purges: Sequence[StreamPurge], refusal: RunError | None, upcoming: datetime | None
) -> list[ConditionValue]:
    if refusal is not None:
        return after_error(refusal)
    under = [purge.entry.current_run.name for purge in purges if purge.entry.current_run]
    if policy.spec.suspend:
        if under:
            return under_way(
                Reason.SUSPENDED, f"run {under[0]} runs to its end; no other run starts while spec.suspend is true"
            )
        return well(Reason.SUSPENDED, "no run starts while spec.suspend is true")
    if problems := list(_problems(policy, purges)):
        message = few([f"stream {name}: {error.message}" for name, error in problems])
        state = stuck if all(error.reason in TERMINAL for _, error in problems) else under_way
        return state(problems[0][1].reason, message)
    if wrong := _wrong_approval(policy, purges):
        return well(Reason.WRONG_APPROVAL, wrong)
    if any(purge.entry.preview for purge in purges):
        return well(*summary(policy, [purge.entry for purge in purges]))
    return _of_beginning(policy, purges, under, upcoming)


def _problems(policy: RetentionPolicy, purges: Sequence[StreamPurge]) -> Iterator[tuple[str, RunError]]:
    """What keeps the policy from single streams, the worst first; others go on."""
    found = [(purge, _problem(policy, purge)) for purge in purges]
    told = [(purge.entry.name, error) for purge, error in found if error is not None]
    yield from sorted(told, key=lambda one: one[1].reason in _TURNS)


def _problem(policy: RetentionPolicy, purge: StreamPurge) -> RunError | None:
    current, last = purge.entry.current_run, purge.entry.last_run
    if purge.blocker is not None:
        return purge.blocker
    if current is not None and current.ending is not None:
        return RunError(
            reason=current.ending.reason, message=f"run {current.name} is being ended: {current.ending.message}"
        )
    if purge.stage.trouble is not None:
        return purge.stage.trouble
    if last is None or last.error is None or not failed_as_it_is(last, policy):
        return None
    said = ""
    if current is not None:
        said = f"; try {current.attempt} is under way"
    elif purge.retry is not None:
        said = f"; the next try is at {clock_time(purge.retry)}"
    return RunError(reason=last.error.reason, message=f"{last.error.message}{said}")


def _wrong_approval(policy: RetentionPolicy, purges: Sequence[StreamPurge]) -> str | None:
    """What is said where somebody approved a preview that is not the one that waits."""
    approved = approved_preview(policy)
    waiting = [purge.entry.preview.id for purge in purges if purge.entry.awaiting_approval and purge.entry.preview]
    known = {purge.entry.preview.id for purge in purges if purge.entry.preview}
    if approved is None or not waiting or approved in known:
        return None
    awaits = few(waiting, " or ")
    return f"annotation {APPROVED_PREVIEW} approves preview {approved}; the preview that awaits approval is {awaits}"


def _of_beginning(
    policy: RetentionPolicy, purges: Sequence[StreamPurge], under: Sequence[str], upcoming: datetime | None
) -> list[ConditionValue]:
    if under:
        return under_way(Reason.RUNNING, f"run {under[0]} evaluates the rules")
    if not purges:
        return well(Reason.WAITING, "no MessageStream has the labels of spec.streamSelector")
    if upcoming is not None:
        return well(Reason.WAITING, f"the first run is at {clock_time(upcoming)}")
    if policy.spec.trigger.manual is not None:
        return well(Reason.WAITING, f"a run starts when annotation {RUN_REQUESTED} changes")
    return under_way(Reason.PENDING, "no run has started yet")


def _phase(policy: RetentionPolicy, purges: Sequence[StreamPurge], refusal: RunError | None) -> PolicyPhase:
    if refusal is not None:
        return "Stalled" if refusal.reason in TERMINAL else "Failing"
    launched = [purge for purge in purges if purge.entry.current_run and purge.entry.current_run.launched_at]
    if launched:
        waits = policy.spec.approval == "Required" and not _approved(policy, launched)
        return "Previewing" if waits or policy.spec.mode == "DryRun" else "Running"
    if policy.spec.suspend:
        return "Suspended"
    problems = [error for _, error in _problems(policy, purges) if error.reason not in _TURNS]
    if problems:
        return "Stalled" if all(error.reason in TERMINAL for error in problems) else "Failing"
    if any(purge.entry.awaiting_approval for purge in purges):
        return "AwaitingApproval"
    return "Idle" if any(purge.entry.last_run for purge in purges) else "Pending"


def _approved(policy: RetentionPolicy, purges: Sequence[StreamPurge]) -> bool:
    approved = approved_preview(policy)
    return any(purge.entry.preview is not None and purge.entry.preview.id == approved for purge in purges)


def _with_blocker(purge: StreamPurge) -> PolicyStreamStatus:
    """The entry with what keeps the policy from the stream: that, or why its last run failed."""
    last = purge.entry.last_run
    known = last.error if last is not None and last.state == "Failed" else None
    return purge.entry.model_copy(update={"error": api_error(purge.blocker) or known})


def _retries(purges: Sequence[StreamPurge]) -> list[datetime]:
    return [purge.retry for purge in purges if purge.retry is not None]
