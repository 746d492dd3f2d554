"""The runs of a replay: what they wait for, their launch, and what the status records of them."""

from datetime import datetime
from functools import partial

from messagestore_core.addresses import Reach
from messagestore_core.bounds import LAST_MOMENT
from messagestore_core.clock import shifted
from messagestore_core.contract.base import RunError
from messagestore_operator.api import MessageStream, ReplayJobStatus
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.documents import replay_run
from messagestore_operator.decide.run_lifecycle import EndedRun, PlannedRun, RunStage, launch
from messagestore_operator.decide.snapshot import ObservedRun, ReplaySnapshot
from messagestore_operator.decide.tables import replay_tables, tombstones_of
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import replay_outcome, with_progress
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.words import clock_time
from messagestore_operator.translate.replay import Routes

GONE = RunError(reason=Reason.DELETING, message="the ReplayJob is being deleted")


def erasure_of(snapshot: ReplaySnapshot) -> RunError | None:
    """Why the replay pauses: an erasure has the table that it reads, or waits for it while this replay has it."""
    job = snapshot.job
    current = job.status.current_run if job.status else None
    own = f"{job.metadata.namespace}/{current.name}" if current else None
    for lease in snapshot.read:
        requests = lease.queue if own is not None and lease.holder == own else (lease.holder_request,)
        if who := next((one.resource for one in requests if one is not None and one.kind == "erase"), None):
            words = f"the replay pauses for an erasure of {lease.table.uri} by {who}, and goes on afterwards"
            return RunError(reason=Reason.ERASING, message=words)
    return None


def erases_beside(snapshot: ReplaySnapshot, run: ObservedRun) -> datetime | None:
    """Until when a continuous run may go on though an erasure waits for its table; None: it has to stop now.

    It goes on once it has reported that it knows the tombstones of what is erased.
    """
    until = LAST_MOMENT
    for lease in snapshot.read:
        request = lease.holder_request
        if request is None or request.kind != "erase":
            continue
        known, needed = tombstones_of(run), request.tombstones
        if needed is None:
            return None
        if known is None or known < needed:
            until = min(until, shifted(lease.since or request.since, snapshot.defaults.erasure_after))
    return until if until > snapshot.now else None


def beginning_of(snapshot: ReplaySnapshot) -> RunError | None:
    """The error while the stream's first run has not ended: people may apply a stream together with its replay.

    A stream that is suspended, or waits for its schedule or an annotation, is replayed as its store is.
    """
    stream = snapshot.stream
    assert stream is not None
    if not _begins(stream):
        return None
    which = f"waiting for the first run of MessageStream {stream.metadata.name}"
    ready = condition_of(stream.status, "Ready")
    return RunError(reason=Reason.PENDING, message=f"{which}: {ready.message}" if ready else which)


def _begins(stream: MessageStream) -> bool:
    status = stream.status
    if status is None:
        return True
    if status.last_run is not None:
        return False
    if status.current_run is not None:
        # A continuous run has no end to wait for.
        return status.totals is None or stream.spec.trigger.continuous is None
    return condition_of(status, "Reconciling") is not None


def start(snapshot: ReplaySnapshot, run: CurrentRun, routes: Routes | None = None) -> RunStage:
    """Acquire the tables that a reserved run writes, and create the run; its streams exist."""
    job, stream = snapshot.job, snapshot.stream
    assert stream is not None
    named = {one.metadata.name: one for one in (stream, snapshot.target) if one is not None}
    tables = replay_tables(job, named)
    addresses: Reach = "Private" if snapshot.defaults.tenancy.http.allow_private else "Public"
    make = partial(replay_run, job, stream, snapshot.target, run, snapshot.secrets_version, addresses, routes)
    return launch(snapshot, PlannedRun(job, run, tables, make, list(named.values())))


def recorded(before: ReplayJobStatus, stage: RunStage) -> ReplayJobStatus:
    """The status with the progress of the run in progress, or the outcome of the ended one."""
    ended = stage.ended
    if ended is None:
        begun = before.started_at or (stage.current.launched_at if stage.current else None)
        return with_progress(before, stage.live).model_copy(update={"started_at": begun})
    status = with_progress(before, ended.report)
    failed = ended.state == "Failed"
    return status.model_copy(
        update={
            "current_run": None,
            "last_run": ended.finished_run(),
            "attempts": (before.attempts or 0) + 1,
            "failures": before.failures + failed,
            "error": api_error(ended.error) if failed else None,
            "started_at": before.started_at or ended.run.launched_at,
        }
    )


def sends(stage: RunStage, before: ReplayJobStatus) -> bool:
    """Whether the run in progress has sent messages since the status was written."""
    outcome = replay_outcome(stage.live)
    known = before.progress.replayed if before.progress else 0
    return outcome is not None and outcome.progress.replayed > known


def is_complete(ended: EndedRun) -> bool:
    """Whether the run reports that the whole selection was sent."""
    outcome = replay_outcome(ended.report)
    return ended.state == "Succeeded" and outcome is not None and outcome.complete


def with_pause(snapshot: ReplaySnapshot, before: ReplayJobStatus, *, pauses: bool) -> ReplayJobStatus:
    """The status with the time of pauses, which doesn't count towards the deadline."""
    now, since = snapshot.now, before.paused_at
    if pauses:
        begun = before.started_at is not None and since is None
        return before.model_copy(update={"paused_at": clock_time(now)}) if begun else before
    if since is None:
        return before
    paused = before.paused_seconds + max(int((now - since.datetime).total_seconds()), 0)
    return before.model_copy(update={"paused_at": None, "paused_seconds": paused})
