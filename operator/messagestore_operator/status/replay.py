"""The status of a ReplayJob: its figures, then its phase and conditions, including those of a batch Job."""

from dataclasses import dataclass
from datetime import datetime

from messagestore_core.contract.base import RunError
from messagestore_core.contract.replay import CursorState, ReplayOutcome
from messagestore_core.contract.run_report import RunReport
from messagestore_operator.api import ReplayJob, ReplayJobStatus
from messagestore_operator.api.destinations import Destination
from messagestore_operator.api.replayjob import ReplayJobSpec
from messagestore_operator.api.replayjob_status import (
    CursorStatus,
    DestinationStatus,
    Progress,
    ReplayPhase,
    Selection,
    SubscriptionLag,
)
from messagestore_operator.status.conditions import (
    ConditionValue,
    after_error,
    after_lasting,
    ending_of,
    stuck,
    under_way,
    well,
    with_conditions,
)
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.routes import with_states
from messagestore_operator.status.stream import table_status
from messagestore_operator.status.words import clock_time, count, in_status
from messagestore_operator.translate.http import host_of

_LONGEST, _MOST = 1024, 20
"""Of findings in the status."""
ENDED = ("Succeeded", "Failed", "Cancelled")


def with_progress(before: ReplayJobStatus, report: RunReport | None) -> ReplayJobStatus:
    """A status with the figures of a report, of a run in progress or an ended one."""
    outcome = replay_outcome(report)
    if outcome is None:
        return before
    changes: dict[str, object] = {
        "selection": Selection(**outcome.selection.model_dump()),
        "progress": Progress(**outcome.progress.model_dump()),
        "findings": tuple(finding[:_LONGEST] for finding in outcome.findings[:_MOST]),
    }
    if outcome.table is not None:
        changes["table"] = table_status(outcome.table)
    if outcome.target_table is not None:
        changes["target_table"] = table_status(outcome.target_table)
    if outcome.cursor is not None:
        changes |= {"destinations": (_destination(outcome.cursor, before),), "last_handled_reset": outcome.cursor.reset}
        if report is not None and report.state == "Running":
            changes |= {"round": outcome.round, "replayed_total": outcome.redelivered}
    if outcome.destinations:
        changes["destinations"] = with_states(before.destinations, outcome.destinations, current=before.current_run)
        if any(one.going_on is not None for one in outcome.destinations):
            changes |= {"round": outcome.round, "replayed_total": outcome.redelivered}
    return before.model_copy(update=changes)


def _destination(cursor: CursorState, before: ReplayJobStatus) -> DestinationStatus:
    return DestinationStatus(
        conditions=before.destinations[0].conditions if before.destinations else (),
        cursor=in_status(CursorStatus, cursor),
        lag=in_status(SubscriptionLag, cursor.lag),
    )


def replay_outcome(report: RunReport | None) -> ReplayOutcome | None:
    """The replay's outcome in a report."""
    return report.outcome if report is not None and isinstance(report.outcome, ReplayOutcome) else None


def short_destination(spec: ReplayJobSpec) -> str:
    """The destination in short, or how many there are."""
    return _short(spec.destination) if spec.destination is not None else count(len(spec.destinations), "destination")


def _short(destination: Destination) -> str:
    """A destination in short: its kind and the last part of its name."""
    if destination.stream is not None:
        return f"stream/{destination.stream.name}"
    if destination.kafka is not None:
        return f"kafka/{destination.kafka.topic or 'topicFrom'}"
    if destination.http is not None:
        return f"http/{host_of(destination.http.url)}"
    assert destination.files is not None
    return f"files/{destination.files.uri.rstrip('/').rpartition('/')[2]}"


def has_ended(job: ReplayJob) -> bool:
    """Whether a replay reads nothing more."""
    return job.status is not None and (job.status.phase in ENDED or job.status.finished_at is not None)


@dataclass(frozen=True)
class ReplayOutlook(Outlook):
    """The outlook for a replay: more runs, or none, because it is complete or has finally failed."""

    complete: bool = False
    given_up: RunError | None = None


def with_view(
    job: ReplayJob, before: ReplayJobStatus, status: ReplayJobStatus, outlook: ReplayOutlook, now: datetime
) -> ReplayJobStatus:
    """The status with its phase and conditions.

    Args:
        job: the resource, without a trigger.
        status: the status with all other fields, including the current run.
    """
    phase = _phase(job, status, outlook)
    ended = clock_time(now) if phase in ENDED else None
    changes = {
        "phase": phase,
        "destination": short_destination(job.spec),
        "finished_at": status.finished_at or ended,
    }
    values = _condition_values(job, status, outlook, phase)
    return with_conditions(job, before, status.model_copy(update=changes), values, now)


def _phase(job: ReplayJob, status: ReplayJobStatus, outlook: ReplayOutlook) -> ReplayPhase:
    current = status.current_run
    if outlook.complete:
        return "Succeeded"
    if outlook.given_up is not None:
        return "Failed"
    if job.metadata.deletion_timestamp is not None and current is None:
        return "Cancelled"
    if outlook.lasting is not None:
        return "Stalled"
    if current is not None and current.launched_at is not None:
        return "Previewing" if status.selection is None or job.spec.mode == "DryRun" else "Running"
    return "Paused" if job.spec.suspend else "Pending"


def _condition_values(
    job: ReplayJob, status: ReplayJobStatus, outlook: ReplayOutlook, phase: ReplayPhase
) -> list[ConditionValue]:
    if phase == "Succeeded":
        return _complete(job, status)
    if outlook.given_up is not None:
        error = outlook.given_up
        return [*stuck(error.reason, error.message), ConditionValue("Failed", "True", error.reason, error.message)]
    if phase == "Cancelled":
        return [ConditionValue("Ready", "False", Reason.DELETING, "the ReplayJob is being deleted")]
    if outlook.lasting is not None:
        return after_lasting(outlook.lasting, status.current_run, outlook.next_run)
    if outlook.blocker is not None and outlook.blocker.reason == Reason.PAUSED:
        return well(Reason.PAUSED, outlook.blocker.message)
    if outlook.blocker is not None:
        return after_error(outlook.blocker)
    return _of_work(job, status, outlook, phase)


def _of_work(
    job: ReplayJob, status: ReplayJobStatus, outlook: ReplayOutlook, phase: ReplayPhase
) -> list[ConditionValue]:
    """The conditions of a replay that goes on, pauses, or is retried."""
    current, trouble = status.current_run, outlook.trouble
    if phase == "Paused":
        return well(Reason.SUSPENDED, "nothing is sent while spec.suspend is true")
    if (ending := ending_of(current)) is not None:
        return under_way(ending.reason, ending.message)
    if trouble is not None:
        return under_way(trouble.reason, trouble.message)
    if job.spec.suspend:
        return under_way(Reason.SUSPENDED, "the replay pauses after the current batch")
    if status.error is not None and current is None:
        when = f"; try {status.failures + 1} is at {clock_time(outlook.next_run)}" if outlook.next_run else ""
        return under_way(status.error.reason, f"{status.error.message}{when}")
    if phase == "Running":
        return under_way(Reason.RUNNING, "messages are being sent")
    if phase == "Previewing":
        return under_way(Reason.RUNNING, "the selection is being counted")
    if current is not None:
        return under_way(Reason.PENDING, f"run {current.name} is being started")
    if outlook.next_run is not None:
        return under_way(
            Failure.RUN_STOPPED, f"the last run was stopped; the next is at {clock_time(outlook.next_run)}"
        )
    return under_way(Reason.PENDING, "no run has started yet")


def _complete(job: ReplayJob, status: ReplayJobStatus) -> list[ConditionValue]:
    """The conditions of a complete replay."""
    reason, message = _summary(job, status.selection, status.progress)
    if status.findings:
        message += f"; {count(len(status.findings), 'finding')} in status.findings, the first: {status.findings[0]}"
    return [*well(reason, message), ConditionValue("Complete", "True", reason, message), *degraded(status.progress)]


def degraded(progress: Progress | None) -> list[ConditionValue]:
    """The condition of a replay that could not send some messages and sent the rest."""
    if progress is None or not progress.failed:
        return []
    shown = ", ".join(map(str, progress.first_failed_positions))
    which = f"; the first are at global positions {shown}" if shown else ""
    verb = "was" if progress.failed == 1 else "were"
    difference = "it differs" if progress.failed == 1 else "they differ"
    words = f"{count(progress.failed, 'message')} {verb} not sent: {difference} from what was stored{which}"
    return [ConditionValue("Degraded", "True", Failure.MESSAGES_BROKEN, words)]


def _summary(job: ReplayJob, selection: Selection | None, progress: Progress | None) -> tuple[str, str]:
    what = "dead letter" if job.spec.origin == "DeadLetters" else "message"
    if job.spec.mode == "DryRun":
        selected = selection.messages if selection else 0
        return Reason.PREVIEWED, f"{count(selected, what)} would be replayed; mode is DryRun"
    sent, failed = (progress.replayed, progress.failed) if progress else (0, 0)
    replayed = f"{count(sent, what)} replayed to {short_destination(job.spec)}{_taken(progress)}"
    if progress and progress.erased:
        replayed += f", {progress.erased} erased since they were selected"
    if progress and progress.expired:
        replayed += f", {progress.expired} skipped as they have expired"
    if progress and progress.set_aside:
        replayed += f", {progress.set_aside} refused and set aside"
    if failed:
        return Failure.MESSAGES_BROKEN, f"{replayed}, {failed} not sent"
    return Reason.REPLAYED, replayed


def _taken(progress: Progress | None) -> str:
    """What happened to redriven dead letters in the stream, without zero counts."""
    if progress is None or progress.stored is None:
        return ""
    again, duplicates = progress.dead_lettered or 0, progress.duplicates or 0
    parts = [
        (progress.stored, f"{progress.stored} stored"),
        (again, f"{again} set aside again"),
        (duplicates, count(duplicates, "duplicate")),
    ]
    became = ", ".join(words for number, words in parts if number)
    return f": {became}" if became else ""
