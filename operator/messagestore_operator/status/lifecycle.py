"""The lifecycle figures in a stream's status."""

from __future__ import annotations

from messagestore_core.contract.run_report import IngestOutcome, Lag, LifecycleOutcome, RunReport
from messagestore_operator.api.messagestream_status import LifecycleStatus, UnfinishedMessages
from messagestore_operator.status.words import count


def lifecycle_status(before: LifecycleStatus | None, report: RunReport | None) -> LifecycleStatus | None:
    """The report's figures. A run without changes doesn't count unfinished messages; then the earlier counts stay."""
    outcome = report.outcome if report else None
    if not isinstance(outcome, IngestOutcome) or outcome.lifecycle is None:
        return before
    lifecycle = outcome.lifecycle
    return LifecycleStatus(
        **lifecycle.totals.model_dump(),
        pending=lifecycle.pending,
        unfinished=_unfinished(lifecycle) or (before.unfinished if before else None),
        lag=_lag(lifecycle.lag) or (before.lag if before else None),
    )


def _unfinished(lifecycle: LifecycleOutcome) -> UnfinishedMessages | None:
    if lifecycle.unfinished is None:
        return None
    return UnfinishedMessages(**{status.lower(): messages for status, messages in lifecycle.unfinished.items()})


def _lag(lag: Lag | None) -> str | None:
    if lag is None:
        return None
    return count(lag.files, "file") if lag.records is None else count(lag.records, "record")
