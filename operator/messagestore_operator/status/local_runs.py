"""The status of resources after a local run: the outcome of one run each, with no current and no next run."""

from collections.abc import Sequence
from datetime import datetime

from messagestore_core.contract.base import RunError
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import (
    MessageStream,
    MessageStreamStatus,
    ReplayJob,
    ReplayJobStatus,
    RetentionPolicy,
    RetentionPolicyStatus,
)
from messagestore_operator.status import policy as policy_view
from messagestore_operator.status import redelivery as redelivery_view
from messagestore_operator.status import replay as replay_view
from messagestore_operator.status import stream as stream_view
from messagestore_operator.status.conditions import generation
from messagestore_operator.status.facts import Outlook, StoreFacts, StreamResult, error_of
from messagestore_operator.status.policy import StreamView, policy_stream
from messagestore_operator.status.replay import ReplayOutlook, replay_outcome, with_progress
from messagestore_operator.status.routes import with_states
from messagestore_operator.status.runs import api_error, finished_run, with_counts
from messagestore_operator.status.stream import with_store
from messagestore_operator.status.words import clock_time


def stream_status(
    stream: MessageStream,
    now: datetime,
    report: RunReport | None = None,
    store: StoreFacts | None = None,
    error: RunError | None = None,
) -> MessageStreamStatus:
    """The status of a stream.

    Args:
        stream: with its status so far, if it has one.
        report: of its run; None if there was none.
        store: figures from the tables; if absent, those of the report.
        error: why no run started.
    """
    before = stream.status or MessageStreamStatus()
    status = with_store(before, report, store, now)
    if report is not None:
        run = with_counts(finished_run(report, "ingest"), report)
        recent = (run, *before.recent_runs)[: stream.spec.run_history_limit]
        status = status.model_copy(update={"last_run": run, "recent_runs": recent})
    return stream_view.with_view(stream, before, status, Outlook(error_of(report, error)), now, ages=True)


def policy_status(
    policy: RetentionPolicy, now: datetime, results: Sequence[StreamResult] = ()
) -> RetentionPolicyStatus:
    """The status of a policy.

    Args:
        policy: with its status so far, if it has one.
        results: one per stream, in the policy's order; empty if it did not run.
    """
    before = policy.status or RetentionPolicyStatus()
    known = {stream.name: stream for stream in before.streams}
    streams = [
        StreamView(policy_stream(result, known.get(result.stream)), Outlook(result.failure)) for result in results
    ] or [StreamView(entry, Outlook()) for entry in before.streams]
    return policy_view.with_view(policy, before, before, Outlook(), streams, now)


def replay_status(
    job: ReplayJob, now: datetime, report: RunReport | None = None, error: RunError | None = None
) -> ReplayJobStatus:
    """The status of a replay.

    Args:
        job: with its status so far, if it has one.
        report: of its run; None if there was none.
        error: why no run started.
    """
    before = job.status or ReplayJobStatus()
    outcome, failure = replay_outcome(report), error_of(report, error)
    changes: dict[str, object] = {"error": api_error(failure)}
    if report is not None:
        changes |= {
            "last_run": finished_run(report, "replay"),
            "attempts": (before.attempts or 0) + 1,
            "started_at": before.started_at or clock_time(report.started_at),
        }
    if outcome is not None:
        changes |= {"round": outcome.round, "replayed_total": outcome.redelivered}
        if report is not None and outcome.destinations:
            run = finished_run(report, "replay").model_copy(update={"generation": generation(job)})
            changes["destinations"] = with_states(before.destinations, outcome.destinations, run)
    status = with_progress(before, report).model_copy(update=changes)
    if job.spec.trigger is not None:
        return redelivery_view.with_view(job, before, status, Outlook(failure), now)
    outlook = ReplayOutlook(
        blocker=error,
        complete=report is not None and failure is None and outcome is not None and outcome.complete,
        given_up=report.error if report else None,
    )
    ended = report.finished_at if report and (outlook.complete or outlook.given_up) else None
    status = status.model_copy(update={"finished_at": before.finished_at or clock_time(ended)})
    return replay_view.with_view(job, before, status, outlook, now)
