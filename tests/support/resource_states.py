"""The three kinds in all states that a GitOps tool must distinguish, with the operator's own statuses."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, Lag
from messagestore_core.contract.purge import Preview, Purged, PurgeOutcome
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import TableState
from messagestore_operator.api import (
    MessageStream,
    MessageStreamStatus,
    ReplayJob,
    ReplayJobStatus,
    Resource,
    RetentionPolicy,
    RetentionPolicyStatus,
    parse_resource,
)
from messagestore_operator.api.retentionpolicy_status import PolicyStreamStatus
from messagestore_operator.api.status import CurrentRun, FinishedRun
from messagestore_operator.names import API_VERSION, APPROVED_PREVIEW
from messagestore_operator.status import policy as policy_view
from messagestore_operator.status import redelivery as redelivery_view
from messagestore_operator.status import replay as replay_view
from messagestore_operator.status import stream as stream_view
from messagestore_operator.status.conditions import conditions, under_way
from messagestore_operator.status.facts import Outlook, StreamResult
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.local_runs import policy_status, replay_status, stream_status
from messagestore_operator.status.policy import StreamView
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import ReplayOutlook, with_progress
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.stream import table_status, with_newer_contents
from messagestore_operator.status.words import clock_time

Document = dict[str, Any]

NOW = datetime(2026, 1, 5, 8, 20, 12, tzinfo=UTC)
GENERATION = 3

_STARTED, _ENDED = NOW - timedelta(minutes=1), NOW - timedelta(seconds=12)
_TABLE = TableState(
    version=1,
    messages=329,
    dead_letters=1,
    bytes=812345,
    oldest_message_time=_STARTED,
    last_global_position=329,
    epoch=1,
)
_COUNTS = IngestCounts(received=331, stored=329, duplicates=1, dead_lettered=1)
_INGESTED = IngestOutcome(counts=_COUNTS, totals=_COUNTS, batches=1, table=_TABLE, lag=Lag(as_of=_ENDED))
_PREVIEW = Preview(id="8c1f", table_version=1, as_of=_ENDED, messages=40, bytes=91234, by_rule={"old": 40}, held=2)
_PURGE = Purged(run="run-1", at=_ENDED, table_version_before=1, table_version_after=3, purged=40, archived=40, held=2)
_SELECTION = FrozenSelection(table_version=1, messages=13, bytes=90321, first_global_position=4)
_REPLAYED = ReplayOutcome(
    selection=_SELECTION, progress=ReplayProgress(replayed=13, percent=100, messages_per_second=410.0), complete=True
)
_DEGRADED = _REPLAYED.model_copy(
    update={"progress": ReplayProgress(replayed=12, failed=1, first_failed_positions=(7,), percent=100)}
)
_HALF = ReplayOutcome(
    selection=_SELECTION, progress=ReplayProgress(replayed=6, percent=46, messages_per_second=410.0), complete=False
)
_CURRENT = CurrentRun(name="run-2", state="Running", launched_at=clock_time(_STARTED))
_AGAIN = {"select": {"dueForRetry": True}, "trigger": {"interval": "PT1M"}}
_BUSY = RunError(reason=Failure.TABLE_BUSY, message="another run is writing")
_DENIED = RunError(reason=Failure.STORAGE_DENIED, message="the object store refuses the credentials")
_LOST = RunError(reason=Reason.DRIVER_LOST, message="the driver's pod is gone")
_LOST_RUN = FinishedRun(name="run-1", state="Failed", error=api_error(_LOST), generation=GENERATION)
_PAUSED = RunError(reason=Reason.PAUSED, message="the operator launches nothing while its setting runs.paused is true")
_REFUSED = RunError(reason=Failure.TABLE_REFUSED, message="the folder holds something else")


@dataclass(frozen=True)
class State:
    """One resource in one state, and the expected results of Argo CD and kstatus."""

    kind: str
    name: str
    document: Document
    health: str
    verdict: str

    @property
    def title(self) -> str:
        return f"{self.kind}-{self.name}"


def states() -> list[State]:
    """All of them."""
    return [*_of_all_kinds(), *_of_streams(), *_of_policies(), *_of_jobs()]


def _of_streams() -> list[State]:
    def state(name: str, health: str, verdict: str, spec: Document | None = None, **given: Any) -> State:
        stream = _stream(**(spec or {}))
        return _state(name, health, verdict, stream, stream_status(stream, NOW, **given))

    stream = _stream()
    idle = stream_status(stream, NOW, _report(_INGESTED))
    working = idle.model_copy(update={"current_run": _CURRENT})
    running = stream_view.with_view(stream, idle, working, Outlook(), NOW)
    denied = stream_view.with_view(stream, idle, working, Outlook(lasting=_DENIED), NOW)
    paused = stream_view.with_view(stream, idle, idle, Outlook(paused=_PAUSED.message), NOW)
    lost = stream_status(stream, NOW, _report(_INGESTED, error=_LOST)).model_copy(update={"current_run": _CURRENT})
    again = stream_view.with_view(stream, idle, _of_generation(lost, GENERATION), Outlook(), NOW)
    changed = stream_view.with_view(stream, idle, _of_generation(lost, GENERATION - 1), Outlook(), NOW)
    left = table_status(_TABLE.model_copy(update={"messages": 289, "last_global_position": 289, "epoch": 2}))
    purged = stream_view.with_view(stream, idle, with_newer_contents(idle, [left]), Outlook(), NOW)
    empty = _INGESTED.model_copy(update={"lag": Lag(as_of=_ENDED, source_found=False)})
    return [
        state("pending", "Progressing", "InProgress"),
        state("idle", "Healthy", "Current", report=_report(_INGESTED)),
        _state("running", "Healthy", "Current", stream, running),
        state("suspended", "Suspended", "Current", {"suspend": True}, report=_report(_INGESTED)),
        _state("paused", "Healthy", "Current", stream, paused),
        state("without-files", "Healthy", "Current", report=_report(empty)),
        state("failing", "Progressing", "InProgress", report=_report(error=_BUSY)),
        state("stalled", "Degraded", "Failed", report=_report(error=_REFUSED)),
        _state("stalled-and-tried-again", "Degraded", "Failed", stream, denied),
        _state("lost-and-run-again", "Progressing", "InProgress", stream, again),
        _state("changed-and-run-again", "Progressing", "InProgress", stream, changed),
        _state("after-a-purge", "Healthy", "Current", stream, purged),
    ]


def _of_generation(status: MessageStreamStatus, generation: int) -> MessageStreamStatus:
    """The status with a last run of a spec of this generation."""
    return status.model_copy(update={"last_run": status.last_run.model_copy(update={"generation": generation})})


def _of_policies() -> list[State]:
    def state(name: str, health: str, verdict: str, report: RunReport | None = None, **spec: Any) -> State:
        policy = _policy(**spec)
        results = [StreamResult("orders", report)] if report else []
        return _state(name, health, verdict, policy, policy_status(policy, NOW, results))

    def seen(
        name: str, health: str, verdict: str, entry: PolicyStreamStatus, outlook: Outlook, policy: RetentionPolicy
    ) -> State:
        nothing = RetentionPolicyStatus()
        viewed = policy_view.with_view(policy, nothing, nothing, Outlook(), [StreamView(entry, outlook)], NOW)
        return _state(name, health, verdict, policy, viewed)

    previewed = PurgeOutcome(preview=_PREVIEW, table=_TABLE)
    waiting = previewed.model_copy(update={"awaiting_approval": True})
    entry = PolicyStreamStatus(name="orders", current_run=_CURRENT)
    waits = policy_status(_policy(), NOW, [StreamResult("orders", _report(waiting))]).streams[0]
    asks = _policy(approval="Required")
    annotations = {APPROVED_PREVIEW: _PREVIEW.id}
    approved = asks.model_copy(update={"metadata": asks.metadata.model_copy(update={"annotations": annotations})})
    lost = entry.model_copy(update={"last_run": _LOST_RUN})
    runs = waits.model_copy(update={"current_run": _CURRENT})
    return [
        state("pending", "Progressing", "InProgress", trigger={"schedule": {"cron": "0 3 * * *"}}),
        state("purged", "Healthy", "Current", _report(previewed.model_copy(update={"purge": _PURGE}))),
        state("previewed", "Healthy", "Current", _report(previewed), mode="DryRun"),
        state("awaiting-approval", "Suspended", "Current", _report(waiting), approval="Required"),
        state("suspended", "Suspended", "Current", suspend=True),
        state("failing", "Progressing", "InProgress", _report(error=_BUSY)),
        state("stalled", "Degraded", "Failed", _report(error=_REFUSED)),
        seen("stalled-and-tried-again", "Degraded", "Failed", entry, Outlook(lasting=_DENIED), _policy()),
        seen("paused", "Healthy", "Current", PolicyStreamStatus(name="orders"), Outlook(_PAUSED), _policy()),
        state("manual", "Healthy", "Current"),
        seen("lost-and-run-again", "Progressing", "InProgress", lost, Outlook(), _policy()),
        seen("approved", "Healthy", "Current", runs, Outlook(), approved),
    ]


def _of_jobs() -> list[State]:
    def state(name: str, health: str, verdict: str, spec: Document | None = None, **given: Any) -> State:
        job = _job(**(spec or {}))
        return _state(name, health, verdict, job, replay_status(job, NOW, **given))

    def seen(
        name: str,
        status: ReplayJobStatus,
        outlook: ReplayOutlook,
        health: str = "Progressing",
        verdict: str = "InProgress",
    ) -> State:
        job = _job()
        viewed = replay_view.with_view(job, ReplayJobStatus(), status, outlook, NOW)
        return _state(name, health, verdict, job, viewed)

    sent = _REPLAYED.model_copy(update={"round": 4, "redelivered": 13})
    running = with_progress(ReplayJobStatus(current_run=_CURRENT), _report(_HALF))
    failed = ReplayJobStatus(failures=1, error=api_error(_BUSY))
    many = _job(**_AGAIN)
    lost = ReplayJobStatus(current_run=_CURRENT, last_run=_LOST_RUN)
    again = redelivery_view.with_view(many, ReplayJobStatus(), lost, Outlook(), NOW)
    return [
        state("pending", "Progressing", "InProgress"),
        seen("running", running, ReplayOutlook()),
        state("suspended", "Suspended", "Current", {"suspend": True}, report=_report(_HALF)),
        seen("paused", ReplayJobStatus(), ReplayOutlook(_PAUSED), "Healthy", "Current"),
        state("succeeded", "Healthy", "Current", report=_report(_REPLAYED)),
        state("degraded", "Degraded", "Current", {"onFailed": "Continue"}, report=_report(_DEGRADED)),
        state("previewed", "Healthy", "Current", {"mode": "DryRun"}, report=_report(_REPLAYED)),
        state("sent-again", "Healthy", "Current", _AGAIN, report=_report(sent)),
        _state("lost-and-run-again", "Progressing", "InProgress", many, again),
        seen("tried-again", failed, ReplayOutlook(next_run=NOW + timedelta(minutes=1))),
        seen("stalled-and-tried-again", running, ReplayOutlook(lasting=_DENIED), "Degraded", "Failed"),
        state("failed", "Degraded", "Failed", report=_report(error=_REFUSED)),
    ]


def _of_all_kinds() -> list[State]:
    """States that no status shows alone: not reconciled yet, an older spec's status, a deletion."""
    made: list[tuple[Resource, Any]] = [
        (stream := _stream(), stream_status(stream, NOW, _report(_INGESTED))),
        (policy := _policy(), policy_status(policy, NOW, [StreamResult("orders", _report(error=_REFUSED))])),
        (job := _job(), replay_status(job, NOW, _report(_REPLAYED))),
    ]
    found = []
    for resource, status in made:
        # As the API server returns it before the operator has written anything.
        unseen = _state("unseen", "Progressing", "InProgress", resource, None)
        unseen.document["status"] = {"observedGeneration": 0, "conditions": []}
        changed = _state("changed", "Progressing", "InProgress", resource, status)
        changed.document["metadata"]["generation"] += 1
        deleting = status.model_copy(update={"conditions": conditions(resource, status.conditions, _deleting(), NOW)})
        deleted = _state("deleting", "Progressing", "Terminating", resource, deleting)
        deleted.document["metadata"]["deletionTimestamp"] = "2026-01-05T08:20:00Z"
        found += [unseen, changed, deleted]
    return found


def _deleting() -> Any:
    return under_way(Reason.DELETING, "its run is being ended")


def _state(name: str, health: str, verdict: str, resource: Resource, status: Any) -> State:
    document = {**resource.to_dict(), **({"status": status.to_dict()} if status else {})}
    return State(resource.identity[0], name, document, health, verdict)


def _report(outcome: Any = None, error: RunError | None = None) -> RunReport:
    return RunReport(
        run="run-1",
        sequence=1,
        state="Failed" if error else "Succeeded",
        started_at=_STARTED,
        finished_at=_ENDED,
        outcome=outcome,
        error=error,
    )


def _resource(kind: str, name: str, spec: Document) -> Any:
    metadata = {"name": name, "namespace": "messaging", "generation": GENERATION}
    return parse_resource({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})


def _stream(**spec: Any) -> MessageStream:
    given = {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"interval": "PT5M"},
    }
    stream: MessageStream = _resource("MessageStream", "orders", {**given, **spec})
    return stream


def _policy(**spec: Any) -> RetentionPolicy:
    given = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
        "mode": "Enforce",
    }
    policy: RetentionPolicy = _resource("RetentionPolicy", "orders-90-days", {**given, **spec})
    return policy


def _job(**spec: Any) -> ReplayJob:
    given = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    job: ReplayJob = _resource("ReplayJob", "orders-again", {**given, **spec})
    return job
