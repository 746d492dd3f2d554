"""Decides about a stream that is being deleted. With deletionPolicy Delete its data is deleted first, if allowed."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from messagestore_core.contract.base import RunError
from messagestore_operator.api import MessageStream, MessageStreamStatus
from messagestore_operator.api.messagestream import Hold
from messagestore_operator.api.status import FinishedRun
from messagestore_operator.decide.actions import Action, Decision, EmitEvent, RemoveFinalizer, decision
from messagestore_operator.decide.blockers import barred, spark_operator_missing, unreachable
from messagestore_operator.decide.documents import stream_run
from messagestore_operator.decide.events import condition_events, run_events
from messagestore_operator.decide.garbage_collection import old_leases, old_runs
from messagestore_operator.decide.run_lifecycle import NO_RUN, DesiredRun, PlannedRun, RunStage, follow, launch, reserve
from messagestore_operator.decide.snapshot import StreamSnapshot
from messagestore_operator.decide.stream_record import recorded
from messagestore_operator.decide.tables import table_key
from messagestore_operator.decide.trigger import later, next_attempt, retry_at
from messagestore_operator.status.conditions import generation, under_way, with_conditions
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import broke_off
from messagestore_operator.status.words import clock_time
from messagestore_operator.translate.storage import table_access

FINALIZER = "messagestore.dev/data"
_GONE = RunError(reason=Reason.DELETING, message="the MessageStream is being deleted")
_TO_KEEP_DATA = "to keep the data and let the resource go, set spec.table.deletionPolicy to Retain"


@dataclass(frozen=True)
class _Deletion:
    """The stage of a deletion: it is over, has a run, or is blocked."""

    stage: RunStage = NO_RUN
    over: EmitEvent | None = None
    kept_by: RunError | None = None
    requeue_at: tuple[datetime, ...] = ()


def decide_deletion(snapshot: StreamSnapshot, before: MessageStreamStatus) -> Decision:
    """Decide about a stream that is being deleted. With Retain nothing blocks it, and its runs end with it."""
    stream = snapshot.stream
    if FINALIZER not in stream.metadata.finalizers:
        return decision(stream, stream.status, before, [])
    if stream.spec.table.deletion_policy == "Retain":
        kept = EmitEvent("Normal", Reason.DATA_KEPT, f"{stream.spec.table.uri} is kept, as deletionPolicy says")
        return decision(stream, stream.status, before, [kept, RemoveFinalizer()])
    deletes = before.current_run is not None and before.current_run.kind == "delete"
    desired = DesiredRun(generation(stream), abort=None if deletes else _GONE)
    watched = follow(snapshot, before.current_run, desired)
    status = recorded(snapshot, before, watched)
    deletion = _deletion_of(snapshot, status, watched)
    current = deletion.stage.current
    changes: dict[str, object] = {"current_run": current}
    if current is not None and current.number is not None:
        changes["run_number"] = max(status.run_number or 0, current.number)
    status = _viewed(snapshot, before, status.model_copy(update=changes), deletion)
    requeue_at = [*deletion.requeue_at, *deletion.stage.requeue_at, *watched.requeue_at]
    return decision(stream, stream.status, status, _actions(snapshot, before, status, watched, deletion), requeue_at)


def _deletion_of(snapshot: StreamSnapshot, status: MessageStreamStatus, watched: RunStage) -> _Deletion:
    uri = snapshot.stream.spec.table.uri
    last = status.last_run
    if last is not None and last.kind == "delete" and last.state == "Succeeded":
        # Its operator may have been killed before it let the resource go.
        return _Deletion(over=EmitEvent("Normal", Reason.DATA_DELETED, f"the store at {uri} is deleted"))
    if watched.ended is not None:
        return _Deletion(requeue_at=(snapshot.now,))
    if watched.current is not None and not watched.unlaunched:
        return _Deletion(RunStage(watched.current, trouble=watched.trouble))
    # Replays into the stream are runs of other resources: its table was granted to them.
    if not status.run_number and snapshot.lease(table_key(snapshot.stream)).resource_version is None:
        return _Deletion(over=EmitEvent("Normal", Reason.DATA_KEPT, f"no run was ever granted the store at {uri}"))
    if not snapshot.can_run:
        return _kept(snapshot.stream, "the namespace is being deleted, and nothing can run in it")
    if (blocked := _blocked(snapshot)) is not None:
        return blocked
    if (impossible := _impossible(snapshot)) is not None:
        return impossible
    if (absent := spark_operator_missing(snapshot)) is not None:
        words = f"{absent.message}; {_TO_KEEP_DATA}"
        return _Deletion(kept_by=absent.model_copy(update={"message": words}), requeue_at=_soon(snapshot))
    if snapshot.paused is not None:
        words = f"{snapshot.paused}; {_TO_KEEP_DATA}"
        return _Deletion(kept_by=RunError(reason=Reason.PAUSED, message=words))
    return _deleting(snapshot, status, watched)


def _blocked(snapshot: StreamSnapshot) -> _Deletion | None:
    """The blocked deletion if a hold or another resource keeps the data, else None."""
    stream, now = snapshot.stream, snapshot.now
    if held := _holds(stream, now):
        ends = [hold.until.datetime for hold in held if hold.until]
        words = f"hold {held[0].name} keeps the data; {_TO_KEEP_DATA}"
        return _Deletion(
            kept_by=RunError(reason=Reason.DELETION_BLOCKED, message=words), requeue_at=(*ends, *_soon(snapshot))
        )
    # A stream of another namespace blocks nothing: the folder's marker names the owner, who alone may delete it.
    sharing = [other for other in snapshot.sharing if other.metadata.namespace == stream.metadata.namespace]
    if (other := next((one for one in sharing if _keeps(one, now)), None)) is not None:
        which = f"{other.metadata.namespace}/{other.metadata.name}"
        words = f"MessageStream {which} names {stream.spec.table.uri} too; {_TO_KEEP_DATA}"
        return _Deletion(kept_by=RunError(reason=Reason.DELETION_BLOCKED, message=words), requeue_at=_soon(snapshot))
    return None


def _holds(stream: MessageStream, now: datetime) -> list[Hold]:
    return [hold for hold in stream.spec.holds if hold.until is None or hold.until.datetime > now]


def _keeps(other: MessageStream, now: datetime) -> bool:
    """Whether another stream with the same folder needs the data.

    A stream that will delete the data itself doesn't: else the two would wait for each other. The Lease decides which
    of them is first; the other finds nothing left.
    """
    deletes = other.metadata.deletion_timestamp is not None and other.spec.table.deletion_policy == "Delete"
    return not deletes or bool(_holds(other, now))


def _impossible(snapshot: StreamSnapshot) -> _Deletion | None:
    """The deletion if no run can be created: after a while the resource goes, and its data stays."""
    why = barred(snapshot.stream, snapshot) or unreachable(snapshot, lambda: table_access(snapshot.stream))
    deleted_at = snapshot.stream.metadata.deletion_timestamp
    if why is None or deleted_at is None:
        return None
    end = datetime.fromisoformat(deleted_at) + snapshot.defaults.deletion_bound
    if snapshot.now < end:
        words = f"{why.message}; the resource goes at {clock_time(end)}, and its data stays"
        return _Deletion(kept_by=RunError(reason=why.reason, message=words), requeue_at=(end,))
    return _kept(snapshot.stream, why.message)


def _kept(stream: MessageStream, why: str) -> _Deletion:
    return _Deletion(over=EmitEvent("Warning", Reason.DATA_KEPT, f"the data at {stream.spec.table.uri} is kept: {why}"))


def _deleting(snapshot: StreamSnapshot, status: MessageStreamStatus, watched: RunStage) -> _Deletion:
    stream, last = snapshot.stream, _last_delete(status)
    current = watched.current
    if current is not None and current.kind != "delete":
        # The run was reserved before the deletion, and has no objects.
        current = None
    if current is None and last is not None and (wait := _wait(snapshot, last)) is not None:
        error = last.error.message if last.error else "it failed"
        words = f"the data could not be deleted: {error}; the next try is at {clock_time(wait)}; {_TO_KEEP_DATA}"
        reason = last.error.reason if last.error else Failure.RUN_FAILED
        return _Deletion(kept_by=RunError(reason=reason, message=words), requeue_at=(wait,))
    attempt = next_attempt(last, stream, snapshot.defaults)
    run = current or reserve(snapshot, stream, "delete", (status.run_number or 0) + 1, attempt)
    table = table_key(stream)
    return _Deletion(launch(snapshot, PlannedRun(stream, run, [table], partial(stream_run, snapshot, run), [stream])))


def _last_delete(status: MessageStreamStatus) -> FinishedRun | None:
    last = status.last_run
    return last if last is not None and last.kind == "delete" and broke_off(last) else None


def _wait(snapshot: StreamSnapshot, last: FinishedRun) -> datetime | None:
    """When the next try is due; None: now. No failure is final here: people need a way to correct it."""
    at = retry_at(last, snapshot.stream, snapshot.defaults, snapshot.now)
    if at is None and last.finished_at is not None:
        at = later(last.finished_at.datetime, snapshot.defaults.backoff_max, snapshot.now)
    return at if at is not None and at > snapshot.now else None


def _viewed(
    snapshot: StreamSnapshot, before: MessageStreamStatus, status: MessageStreamStatus, deletion: _Deletion
) -> MessageStreamStatus:
    current, trouble = deletion.stage.current, deletion.kept_by or deletion.stage.trouble
    if trouble is not None:
        values = under_way(trouble.reason, trouble.message)
    else:
        doing = f"run {current.name}" if current else "the last steps"
        values = under_way(Reason.DELETING, f"the store is being deleted: {doing}")
    changes = {"phase": "Deleting", "next_run_time": None}
    return with_conditions(snapshot.stream, before, status.model_copy(update=changes), values, snapshot.now)


def _actions(
    snapshot: StreamSnapshot,
    before: MessageStreamStatus,
    status: MessageStreamStatus,
    watched: RunStage,
    deletion: _Deletion,
) -> list[Action]:
    current = {deletion.stage.current.name} if deletion.stage.current else set()
    over = {before.current_run.name} if before.current_run and before.current_run.name not in current else set()
    actions: list[Action] = [*run_events(before.current_run, watched), *condition_events(before, status)]
    actions += [*watched.actions, *deletion.stage.actions]
    actions += old_runs(snapshot, current | over, snapshot.stream.spec.run_history_limit)
    actions += old_leases(snapshot, current, over)
    return [*actions, deletion.over, RemoveFinalizer()] if deletion.over else actions


def _soon(snapshot: StreamSnapshot) -> tuple[datetime, ...]:
    return (snapshot.now + snapshot.defaults.deletion_bound,)
