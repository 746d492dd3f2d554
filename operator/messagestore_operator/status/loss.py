"""Records of a topic that were lost before they were read."""

from __future__ import annotations

from messagestore_core.contract.run_report import IngestOutcome, RunReport
from messagestore_operator.api.messagestream_status import LossStatus
from messagestore_operator.status.times import clock_time


def loss_status(before: LossStatus | None, report: RunReport | None) -> LossStatus | None:
    """The loss in the last ingest's report, which is the sum over all runs."""
    if report is None or not isinstance(report.outcome, IngestOutcome) or report.outcome.loss is None:
        return before
    loss = report.outcome.loss
    return LossStatus(
        records=loss.records,
        at=clock_time(loss.at),
        topic=loss.topic,
        partition=loss.partition,
        start=loss.start,
        end=loss.end,
        reason=loss.reason,
    )
