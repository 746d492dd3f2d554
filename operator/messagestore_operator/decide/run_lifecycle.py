"""The lifecycle of one current run: from its reservation until it has ended and its driver is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Upkeep
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.api.status import CurrentRun, FinishedRun, RunState
from messagestore_operator.api.status import RunError as StatusError
from messagestore_operator.decide.actions import AcquireLease, Action, AwaitRoom, CreateRun, DeleteRun, SetControl
from messagestore_operator.decide.causes import failure, progress_words, report_missing, start_deadline, waiting_error
from messagestore_operator.decide.leases import Busy, grant, is_held
from messagestore_operator.decide.run_queue import full
from messagestore_operator.decide.snapshot import (
    AppState,
    DriverControl,
    ObservedRun,
    RunKind,
    RunRef,
    Snapshot,
    TableKey,
)
from messagestore_operator.decide.tables import lease_request_of, slot_of
from messagestore_operator.status.conditions import CANCELLED, generation
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import api_error, ended_run
from messagestore_operator.status.words import clock_time, few, span
from messagestore_operator.translate.names import numbered_run_name

_FORBIDS = (Reason.NOT_ALLOWED, Reason.TABLE_RELEASED)
"""Reasons that also stop a run in progress."""
_LOST = RunError(reason=Reason.RUN_LOST, message="its application was deleted before it had ended")
_REFUSED = (Failure.INVALID_SPEC, Reason.FOLDERS_OVERLAP)
"""Reasons for which a run in progress goes on with the spec that it has."""


@dataclass(frozen=True)
class DesiredRun:
    """What a run in progress shall do.

    ``stop`` asks it to end after its batch, ``abort`` says why to end it at once, ``messages_per_second`` is its rate
    limit, ``maintain`` the maintenance to do between batches. A run that can't start is ended once the resource has
    another generation, or no run is ``wanted``.
    """

    generation: int
    wanted: bool = True
    stop: bool = False
    abort: RunError | None = None
    messages_per_second: float | None = None
    maintain: Upkeep | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A reserved run, and what its launch needs.

    ``tables`` are those that it writes, in the one order in which all runs acquire them; ``make`` returns what to
    create, given the epoch of each table. ``streams`` are those whose stores it works on. ``former_tables`` are the
    keys of the same tables in namespaces that released them: the runs of those namespaces end first. ``readers`` are
    other runs that must end once this one has its tables.
    """

    resource: Resource
    run: CurrentRun
    tables: Sequence[TableKey]
    make: Callable[[Mapping[TableKey, int]], CreateRun]
    streams: Sequence[MessageStream]
    former_tables: Sequence[TableKey] = ()
    readers: Sequence[str] = ()


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended. Times are from the operator's clock; ``report`` is its last one, unchecked."""

    run: CurrentRun
    state: RunState
    at: datetime
    report: RunReport | None = None
    error: RunError | None = None

    def finished_run(self) -> FinishedRun:
        """The run in a status."""
        return ended_run(self.run, self.state, self.at, self.error, self.report)


@dataclass(frozen=True)
class RunStage:
    """The stage of a current run.

    ``current`` is its entry in the next status, ``ended`` its end, ``trouble`` why it is stuck, ``live`` its report
    until it ends.
    """

    current: CurrentRun | None = None
    ended: EndedRun | None = None
    trouble: RunError | None = None
    live: RunReport | None = None
    actions: tuple[Action, ...] = ()
    requeue_at: tuple[datetime, ...] = ()

    @property
    def unlaunched(self) -> bool:
        """Whether the run has a number and nothing else yet."""
        return self.current is not None and self.current.launched_at is None

    def dropped_by(self, after: RunStage) -> bool:
        """Whether its run has only a number, and is no more in the next stage."""
        return self.unlaunched and after.current is None

    def acted(self) -> RunStage:
        """The same stage, without actions."""
        return RunStage(self.current, self.ended, self.trouble, self.live)


NO_RUN = RunStage()
"""There is no run."""


def reserve(snapshot: Snapshot, resource: Resource, kind: RunKind, number: int, attempt: int = 1) -> CurrentRun:
    """A run with a new number. The status must have it before its objects are created."""
    return CurrentRun(
        name=numbered_run_name(resource, kind, number),
        kind=kind,
        attempt=attempt,
        number=number,
        generation=generation(resource),
        requested_at=clock_time(snapshot.now),
    )


def follow(snapshot: Snapshot, current: CurrentRun | None, desired: DesiredRun) -> RunStage:
    """Observe a current run, and carry out what is desired."""
    if current is None:
        return RunStage()
    run = snapshot.run(current.name)
    if run is None or (run.state is AppState.MISSING and run.driver is None):
        if current.launched_at is None:
            return RunStage(current)
        return RunStage(ended=_ended(snapshot, current, run))
    if current.launched_at is None and not run.config_map and not run.state.ended and run.state is not AppState.MISSING:
        # The operator was killed between the application and its ConfigMap, without which no driver starts.
        return RunStage(current)
    seen = _seen(snapshot, current, run)
    if run.over:
        return RunStage(ended=_ended(snapshot, seen, run))
    if run.state.ended or run.state is AppState.MISSING:
        message = (
            f"run {seen.name} has ended, but its driver pod may still write; the next run starts when the pod is gone"
        )
        trouble = RunError(reason=Reason.WAITING_FOR_DRIVER, message=message)
        return RunStage(seen, trouble=trouble, requeue_at=_soon(snapshot))
    return _guide(snapshot, seen, run, desired)


def is_outdated(snapshot: Snapshot, current: CurrentRun, run: ObservedRun, blocker: RunError | None) -> bool:
    """Whether a continuous run is to stop: it is forbidden, or another can follow with a changed spec or Secret.

    Args:
        blocker: why no other run can start.
    """
    if blocker is not None and blocker.reason in _FORBIDS:
        return True
    # While the spec is refused or the operator is paused, no run could follow.
    followed = snapshot.paused is None and (blocker is None or blocker.reason not in _REFUSED)
    changed = current.generation != generation(snapshot.resource)
    return followed and (changed or _has_old_secrets(run.ref, snapshot))


def _has_old_secrets(run: RunRef, snapshot: Snapshot) -> bool:
    """Whether a Secret has changed: pods keep the values that they started with."""
    known, now = run.secrets_version, snapshot.secrets_version
    return known is not None and now is not None and known != now


def launch(snapshot: Snapshot, planned: PlannedRun) -> RunStage:
    """Acquire the tables that a reserved run writes; create the run once it has all of them and a free slot."""
    resource, current = planned.resource, planned.run
    leases = [snapshot.lease(table) for table in planned.former_tables]
    if any(is_held(lease, snapshot.now, snapshot.defaults) for lease in leases):
        waits = "the table is in use: waiting for a run of the namespace that released it"
        return RunStage(current, trouble=RunError(reason=Failure.TABLE_BUSY, message=waits), requeue_at=_soon(snapshot))
    after = max((lease.epoch for lease in leases), default=0)
    epochs: dict[TableKey, int] = {}
    taken: list[AcquireLease] = []
    for table in planned.tables:
        answer = grant(
            snapshot.lease(table), lease_request_of(resource, current), snapshot.now, snapshot.defaults, after
        )
        if isinstance(answer, Busy):
            words = RunError(reason=Failure.TABLE_BUSY, message=f"{table.uri} is in use: waiting for {answer.who}")
            when = (answer.until,) if answer.until else ()
            return RunStage(current, trouble=words, actions=tuple(taken), requeue_at=(*when, *_soon(snapshot)))
        epochs[table] = answer.epoch
        taken += [answer.acquire] if answer.acquire else []
    if planned.readers:
        # With the table it is their turn to stop, and their slots become free.
        waits = f"{planned.tables[0].uri} is being read: waiting for {few(planned.readers, ' and ')} to stop"
        words = RunError(reason=Failure.TABLE_BUSY, message=waits)
        return RunStage(current, trouble=words, actions=tuple(taken), requeue_at=_soon(snapshot))
    slot = slot_of(resource, current, planned.streams)
    # A run must not keep a table from other runs while it waits for a slot.
    begun = len(taken) < len(epochs)
    if not begun and (wait := full(snapshot.run_queue, slot, snapshot.now)) is not None:
        words = RunError(reason=Reason.WAITING_FOR_ROOM, message=f"waiting for a free slot: {wait.why}")
        return RunStage(current, trouble=words, actions=(AwaitRoom(slot),), requeue_at=(wait.until,))
    fresh = current.model_copy(update={"generation": generation(resource)})
    return RunStage(fresh, actions=(*taken, replace(planned.make(epochs), slot=slot)), requeue_at=_soon(snapshot))


def run_ref(
    resource: Resource,
    current: CurrentRun,
    *,
    stream: str | None = None,
    continuous: bool = False,
    secrets_version: str | None = None,
) -> RunRef:
    """The reference to a current run that its objects carry."""
    assert current.number is not None
    kind: RunKind = current.kind  # type: ignore[assignment]
    return RunRef(
        namespace=resource.metadata.namespace,
        name=current.name,
        number=current.number,
        kind=kind,
        generation=generation(resource),
        attempt=current.attempt,
        stream=stream,
        continuous=continuous,
        secrets_version=secrets_version,
    )


def _seen(snapshot: Snapshot, current: CurrentRun, run: ObservedRun) -> CurrentRun:
    """The run's entry in the status, updated by what is observed now."""
    changes: dict[str, object] = {"progress": progress_words(run.report)}
    if current.launched_at is None:
        changes["generation"] = run.ref.generation
        # An application that could not be submitted was never launched.
        if run.state is not AppState.SUBMISSION_FAILED:
            changes["launched_at"] = clock_time(run.created_at or snapshot.now)
    works = run.state is AppState.RUNNING or (run.driver is not None and run.driver.phase == "Running")
    begun = run.driver.started_at if run.driver else None
    if (works or begun is not None) and current.started_at is None:
        # A short run may be seen only after its end.
        changes |= {"started_at": clock_time(min(begun or snapshot.now, snapshot.now)), "state": "Running"}
    return current.model_copy(update=changes)


def _guide(snapshot: Snapshot, seen: CurrentRun, run: ObservedRun, desired: DesiredRun) -> RunStage:
    """Let a run continue, or end it."""
    trouble = waiting_error(run)
    ending = _known_end(seen) or desired.abort or _end(snapshot, seen, run, desired, trouble)
    if ending is not None:
        delete = () if run.deleting else (DeleteRun(run.ref.namespace, run.ref.name),)
        ended = seen.model_copy(update={"ending": seen.ending or api_error(ending)})
        return RunStage(ended, trouble=trouble, live=run.report, actions=delete, requeue_at=_soon(snapshot))
    control = DriverControl(run.control.stop or desired.stop, desired.messages_per_second, desired.maintain)
    if control.stop and seen.stop_requested_at is None:
        seen = seen.model_copy(update={"stop_requested_at": clock_time(snapshot.now)})
    outdated = run.config_map and control != run.control
    actions = (SetControl(run.ref.namespace, run.ref.name, control),) if outdated else ()
    return RunStage(seen, trouble=trouble, live=run.report, actions=actions, requeue_at=_soon(snapshot))


def _end(
    snapshot: Snapshot, seen: CurrentRun, run: ObservedRun, desired: DesiredRun, trouble: RunError | None
) -> RunError | None:
    """Why a run must be ended; None if it may continue."""
    defaults, now = snapshot.defaults, snapshot.now
    if trouble is not None and seen.generation != desired.generation:
        return RunError(reason=Reason.SPEC_CHANGED, message="it could not start, and the spec has changed since")
    if trouble is not None and not desired.wanted:
        return RunError(reason=Reason.SUSPENDED, message="it could not start and is no longer needed")
    begun = _waits_since(seen, run)
    if begun is not None and now - begun >= defaults.start_deadline:
        return start_deadline(run, defaults.start_deadline)
    stop_requested_at = seen.stop_requested_at
    if stop_requested_at is not None and now - stop_requested_at.datetime >= defaults.stop_deadline:
        words = f"it was asked to stop and still runs after {span(defaults.stop_deadline)}"
        return RunError(reason=Reason.STOP_DEADLINE_EXCEEDED, message=words)
    return None


def _waits_since(seen: CurrentRun, run: ObservedRun) -> datetime | None:
    """Since when the run waits for its pods; None if it doesn't."""
    if seen.started_at is None:
        return seen.launched_at.datetime if seen.launched_at else None
    return run.executors_waiting.since if run.executors_waiting else None


def _ended(snapshot: Snapshot, current: CurrentRun, run: ObservedRun | None) -> EndedRun:
    report = run.report if run else None
    state, error = _outcome(current, run, report)
    return EndedRun(current, state, snapshot.now, report, error)


def _outcome(
    current: CurrentRun, run: ObservedRun | None, report: RunReport | None
) -> tuple[RunState, RunError | None]:
    """How it ended: from its final report, else from the operator's reason for ending it, else from its objects."""
    if report is not None and report.state == "Succeeded":
        return "Succeeded", None
    if (ending := _known_end(current)) is not None:
        return ("Cancelled" if ending.reason in CANCELLED else "Failed"), ending
    if run is None or (run.state is AppState.MISSING and (report is None or report.error is None)):
        return "Failed", _LOST
    if run.state is AppState.SUCCEEDED and (report is None or report.error is None):
        return "Failed", report_missing(run)
    error = failure(run)
    # Its pod was told to end, for example because its node is drained.
    return ("Cancelled" if error.reason == Failure.RUN_STOPPED else "Failed"), error


def _known_end(current: CurrentRun) -> RunError | None:
    ending: StatusError | None = current.ending
    return RunError(reason=ending.reason, message=ending.message) if ending else None


def _soon(snapshot: Snapshot) -> tuple[datetime, ...]:
    return (snapshot.now + snapshot.defaults.poll_interval,)
