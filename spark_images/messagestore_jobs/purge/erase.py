"""Erasure: the bytes of what was erased leave the table's storage, by when they are due.

Deleting rows leaves them in files that older table versions refer to. VACUUM deletes those files; the table's history
before it can't be read any more, so it waits until it is due.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from deltalake import CommitProperties

from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.remove import note
from messagestore_jobs.store.audit import Done, add_audit, read_audit
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.history import open_table

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
    rows = [(row, json.loads(row["rules"] or "{}")) for row in read_audit(uri)]
    paid = {(row["refers_to"], detail.get("preview")) for row, detail in rows if row["action"] == ERASE}
    return [
        Owed(row["run"], detail["preview"], datetime.fromisoformat(detail[DUE_BY]), row["counts"].get("erased", 0))
        for row, detail in rows
        if detail.get(DUE_BY) and (row["run"], detail["preview"]) not in paid
    ]


def erase_due(context: Context) -> bool:
    """Erase the bytes of every purge whose erasure is due, and say so in the audit; whether there was any."""
    due = [one for one in owed(context.uri) if one.due_by <= context.as_of]
    if not due:
        return False
    context.progress.step("erase", sum(one.erased for one in due))
    before = open_table(context.uri, "messages").version()
    _vacuum(context, "messages")
    _vacuum(context, "dead_letters")
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
    return True


def _vacuum(context: Context, name: str) -> None:
    properties = CommitProperties(custom_metadata={"userMetadata": note(context).json_text()})
    with external_write(f"vacuum-{name}"):
        open_table(context.uri, name).vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True, commit_properties=properties
        )
