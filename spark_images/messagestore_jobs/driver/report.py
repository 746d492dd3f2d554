"""A report as it is written down: never larger than there is room for, never with a secret."""

from collections.abc import Collection, Iterator
from typing import Any

from messagestore_jobs.contract.run_report import PurgeOutcome, RunReport
from messagestore_jobs.driver.secrets import scrubbed
from messagestore_jobs.text import clipped

REPORT_BYTES = 64 << 10
TERMINATION_BYTES = 4 << 10
"""What Kubernetes keeps of a termination message."""
_TEXT = 300


def report_text(report: RunReport, secrets: Collection[str], limit: int = REPORT_BYTES) -> str:
    """The report as JSON of at most ``limit`` bytes; what is dispensable goes first."""
    for shorter in _shortened(_clean(report, secrets)):
        text = shorter.model_dump_json(by_alias=True, exclude_none=True)
        if len(text.encode()) <= limit:
            return text
    raise ValueError(f"a report of run {report.run} has no room in {limit} bytes")


def _clean(report: RunReport, secrets: Collection[str]) -> RunReport:
    changes: dict[str, Any] = {}
    if report.error is not None:
        message = clipped(scrubbed(report.error.message, secrets))
        changes["error"] = report.error.model_copy(update={"message": message})
    if report.progress is not None and report.progress.text is not None:
        text = clipped(scrubbed(report.progress.text, secrets), _TEXT)
        changes["progress"] = report.progress.model_copy(update={"text": text})
    return report.model_copy(update=changes)


def _shortened(report: RunReport) -> Iterator[RunReport]:
    yield report
    report = report.model_copy(update={"progress": None})
    yield report
    if isinstance(report.outcome, PurgeOutcome):
        preview = report.outcome.preview.model_copy(update={"by_rule": {}})
        yield report.model_copy(update={"outcome": report.outcome.model_copy(update={"preview": preview})})
    yield report.model_copy(update={"outcome": None})
