"""The input of a status, besides the resource and the clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import TableState


@dataclass(frozen=True)
class StoreFacts:
    """Figures from the tables themselves."""

    table: TableState
    totals: IngestCounts
    last_batch_at: datetime | None = None


@dataclass(frozen=True)
class StreamResult:
    """A policy's result on one stream: the reports of its purge and of an erasure after it, or why no run started."""

    stream: str
    report: RunReport | None = None
    error: RunError | None = None
    erasure: RunReport | None = None

    @property
    def failure(self) -> RunError | None:
        """Why the policy is not applied to the stream, or not completely."""
        return error_of(self.report, self.error) or error_of(self.erasure, None)


@dataclass(frozen=True)
class Outlook:
    """The outlook for a resource's runs.

    ``blocker`` is why none can start, ``trouble`` why the current one is stuck, ``next_run`` when the next is due,
    ``lasting`` a failure that has lasted for so long that the resource is stalled. For a stream, ``paused`` is why the
    operator starts none. ``progressing`` is whether a stream's current run has committed a batch, or a continuous
    replay's has reached its destination. Of several destinations, ``stalled`` names those that only a change by
    somebody helps, and ``next_tries`` says when others that fail are tried again.
    """

    blocker: RunError | None = None
    trouble: RunError | None = None
    next_run: datetime | None = None
    paused: str | None = None
    progressing: bool = False
    lasting: RunError | None = None
    stalled: frozenset[str] = frozenset()
    next_tries: Mapping[str, datetime] = field(default_factory=dict)


def facts_of(report: RunReport | None) -> StoreFacts | None:
    """The store after an ingest run, from its report."""
    outcome = report.outcome if report else None
    if report is None or not isinstance(outcome, IngestOutcome):
        return None
    return StoreFacts(outcome.table, outcome.totals, report.finished_at if outcome.batches else None)


def error_of(report: RunReport | None, error: RunError | None) -> RunError | None:
    """Why a resource is not ready: why no run started, or why its run failed."""
    return error or (report.error if report else None)
