"""Erasure: the bytes of what was erased leave the table's storage, by when they are due.

Deleting rows leaves them in files that older table versions refer to. VACUUM deletes those files; the table's history
before it can't be read any more, so it waits until it is due.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from messagestore_jobs.clock import now
from messagestore_jobs.context import Run
from messagestore_jobs.contract.run_document import RunDocument
from messagestore_jobs.contract.run_report import EraseOutcome
from messagestore_jobs.progress import Progress
from messagestore_jobs.store.audit import Done, add_audit, read_audit
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.history import open_table, table_state

ERASE = "Erase"
DUE_BY = "eraseDueBy"


@dataclass(frozen=True)
class Owed:
    """An erasure that a purge still owes."""

    run: str
    preview: str
    due_by: datetime
    erased: int


def owed(uri: str) -> list[Owed]:
    """What the audit says is erased and whose bytes may still be there."""
    rows = [(row, _detail(row["rules"])) for row in read_audit(uri)]
    paid = {(row["refers_to"], detail.get("preview")) for row, detail in rows if row["action"] == ERASE}
    return [
        Owed(row["run"], detail["preview"], datetime.fromisoformat(detail[DUE_BY]), row["counts"].get("erased", 0))
        for row, detail in rows
        if detail.get(DUE_BY) and (row["run"], detail.get("preview")) not in paid
    ]


def _detail(rules: str | None) -> dict[str, Any]:
    """What a row of the audit says beside its columns; nothing where no run has written it."""
    try:
        detail = json.loads(rules or "{}")
        datetime.fromisoformat(detail.get(DUE_BY) or "2000-01-01T00:00:00+00:00").astimezone()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}
    return detail if isinstance(detail.get("preview"), str) else {}


def run_erase(document: RunDocument, spark: SparkSession, progress: Progress) -> EraseOutcome:
    """Erase what is due, where no purge runs by then. The caller has opened the folder and holds the right to write."""
    run = Run(document, spark, progress, now(document))
    erased = erase_due(run)
    return EraseOutcome(
        erased=erased,
        erased_at=run.as_of if erased else None,
        erase_due_by=min((one.due_by for one in owed(run.uri)), default=None),
        table=table_state(run.uri),
    )


def erase_due(context: Run) -> int:
    """Erase the bytes of every purge whose erasure is due, and say so in the audit; how many messages those were."""
    due = [one for one in owed(context.uri) if one.due_by <= context.as_of]
    if not due:
        return 0
    context.progress.step("erase", sum(one.erased for one in due))
    before = open_table(context.uri, "messages").version()
    _vacuum(context, "messages")
    _vacuum(context, "dead_letters")
    _vacuum(context, "pending_updates")
    after = open_table(context.uri, "messages").version()
    for one in due:
        done = Done(
            at=context.as_of,
            action=ERASE,
            run=context.run,
            resource=context.document.resource,
            detail={"preview": one.preview},
            version_before=before,
            version_after=after,
            counts={"erased": one.erased},
            refers_to=one.run,
        )
        add_audit(context.uri, done)
    return sum(one.erased for one in due)


def _vacuum(context: Run, name: str) -> None:
    properties = commit_properties(context.uri, context.note())
    with external_write(f"vacuum-{name}"):
        open_to_write(context.uri, name).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True, commit_properties=properties
        )
