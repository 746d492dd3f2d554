"""The one clock of a run."""

from datetime import UTC, datetime

from messagestore_jobs.contract.run_document import RunDocument


def now(document: RunDocument) -> datetime:
    """The time that every time rule of the run sees, in UTC."""
    return (document.at or datetime.now(UTC)).astimezone(UTC)
