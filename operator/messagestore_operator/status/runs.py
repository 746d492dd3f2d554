"""Ended runs in a status, and how they ended."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.run_report import RunReport
from messagestore_core.text import clipped
from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.api import status as api
from messagestore_operator.api.messagestream_status import StreamRun
from messagestore_operator.status.conditions import LOST, TERMINAL, generation
from messagestore_operator.status.facts import Outlook
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.words import clock_time, in_status
from messagestore_operator.tenancy.adoption import Adoption, is_released
from messagestore_operator.translate.annotations import adopts


def api_error(error: RunError | None) -> api.RunError | None:
    """Why a run failed, in the status' form."""
    if error is None:
        return None
    return api.RunError(reason=error.reason, message=clipped(error.message, api.LONGEST_NOTE))


def finished_run(report: RunReport, kind: str) -> api.FinishedRun:
    """An ended run of any kind, from its report."""
    return in_status(
        api.FinishedRun, report, name=report.run, kind=kind, error=api_error(report.error), **_used(report)
    )


def ended_run(
    run: api.CurrentRun,
    state: api.RunState,
    at: datetime,
    error: RunError | None = None,
    report: RunReport | None = None,
) -> api.FinishedRun:
    """An ended run, with times of the operator's clock, and its last report."""
    return api.FinishedRun(
        name=run.name,
        kind=run.kind,
        state=state,
        attempt=run.attempt,
        started_at=run.started_at or run.launched_at or run.requested_at,
        finished_at=clock_time(at),
        error=api_error(error),
        generation=run.generation,
        **_used(report),
    )


def _used(report: RunReport | None) -> dict[str, Any]:
    """What a run used, by the names of a status."""
    usage = report.usage if report else None
    if usage is None:
        return {}
    return {"cpu_seconds": usage.cpu_seconds, "bytes_written": usage.bytes_written}


def with_counts(run: api.FinishedRun, report: RunReport | None) -> StreamRun:
    """A run of a stream, with counts of its records."""
    return StreamRun(**{**run.model_dump(), **counts_of(report)})


def counts_of(report: RunReport | None) -> dict[str, int]:
    """The counts of an ingest's records in a report."""
    if report is None or not isinstance(report.outcome, IngestOutcome):
        return {}
    counts: dict[str, int] = report.outcome.counts.model_dump()
    lifecycle = report.outcome.lifecycle
    if lifecycle is not None:
        counts |= {"updates": lifecycle.counts.applied, "expired": lifecycle.counts.expired}
    return counts


def failed(run: api.FinishedRun | None) -> bool:
    """Whether the last run failed and the operator did not end it."""
    return run is not None and run.state == "Failed"


def failed_as_it_is(run: api.FinishedRun | None, resource: Resource) -> bool:
    """Whether the last run failed with the present spec; with a new spec a run starts at once."""
    return run is not None and failed(run) and run.generation == generation(resource)


def is_past(run: api.FinishedRun, current: api.CurrentRun | None, resource: Resource) -> bool:
    """Whether a failure says nothing about the run in progress: that has another spec, or the failed one was lost."""
    if current is None or current.launched_at is None:
        return False
    return not failed_as_it_is(run, resource) or (run.error is not None and run.error.reason in LOST)


def broke_off(run: api.FinishedRun | None) -> bool:
    """Whether the last run failed, or something else than the operator stopped it, such as the end of its node."""
    return run is not None and (failed(run) or (run.error is not None and run.error.reason == Failure.RUN_STOPPED))


def broke_off_as_it_is(run: api.FinishedRun | None, resource: Resource) -> bool:
    """Whether the last run broke off with the present spec; with a new spec a run starts at once."""
    return run is not None and broke_off(run) and run.generation == generation(resource)


def released(stream: MessageStream, adoptions: Iterable[Adoption] = ()) -> RunError | None:
    """The error if the stream's table was released to another owner."""
    if not is_released(stream, adoptions):
        return None
    words = f"the table of MessageStream {stream.metadata.name} is released to another owner; no run uses it here"
    return RunError(reason=Reason.TABLE_RELEASED, message=words)


def ran_out_of_memory(run: api.FinishedRun | None) -> bool:
    """Whether the last run failed for lack of memory."""
    return run is not None and run.error is not None and run.error.reason == Failure.OUT_OF_MEMORY


def is_final(run: api.FinishedRun, resource: Resource) -> bool:
    """Whether no retry helps unless the resource changes."""
    if run.error is None or run.error.reason not in TERMINAL:
        return False
    # The folder's owner may release it in the meantime, which changes nothing in this resource.
    asks = isinstance(resource, MessageStream) and adopts(resource)
    return not (asks and run.error.reason == Failure.TABLE_REFUSED)


def phase_of_current(run: api.CurrentRun | None, outlook: Outlook) -> Literal["Stalled", "Failing", "Running"] | None:
    """The phase of a resource with a trigger, if a lasting failure, a blocker or its current run decides it."""
    if outlook.lasting is not None:
        return "Stalled"
    if outlook.blocker is not None:
        return "Stalled" if outlook.blocker.reason in TERMINAL else "Failing"
    if run is not None and run.launched_at is not None:
        return "Failing" if outlook.trouble is not None else "Running"
    return None
