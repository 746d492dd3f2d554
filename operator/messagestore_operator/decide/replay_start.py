"""What blocks a run of a replay, and its launch."""

from __future__ import annotations

from functools import partial

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api import MessageStream
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.check import barred, overlapping, refused, uninstalled, unreachable
from messagestore_operator.decide.documents import missing_streams, replay_run
from messagestore_operator.decide.run_lifecycle import PlannedRun, RunStage, launch
from messagestore_operator.decide.snapshot import ReplaySnapshot
from messagestore_operator.decide.tables import replay_tables
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.translate import replay_access

GONE = RunError(reason=Reason.DELETING, message="the ReplayJob is being deleted")


def blocker_of(snapshot: ReplaySnapshot) -> RunError | None:
    """Why no run can start: the cluster, the replay's streams or their folders don't allow it."""
    if (refusal := uninstalled(snapshot) or overlapping(snapshot.job, snapshot)) is not None:
        return refusal
    if missing := missing_streams(snapshot):
        words = f"there is no MessageStream {' and no MessageStream '.join(missing)}"
        return RunError(reason=Reason.STREAM_MISSING, message=words)
    stream = snapshot.stream
    assert stream is not None
    if snapshot.target is not None and (refusal := refused(snapshot.target, snapshot)) is not None:
        return refusal
    return barred(stream, snapshot) or unreachable(
        snapshot, lambda: replay_access(snapshot.job, stream, snapshot.target)
    )


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


def start(snapshot: ReplaySnapshot, run: CurrentRun) -> RunStage:
    """Acquire the tables that a reserved run writes, and create the run; its streams exist."""
    job, stream = snapshot.job, snapshot.stream
    assert stream is not None
    named = {one.metadata.name: one for one in (stream, snapshot.target) if one is not None}
    tables = replay_tables(job, named)
    make = partial(replay_run, job, stream, snapshot.target, run)
    return launch(snapshot, PlannedRun(job, run, tables, make, list(named.values())))
