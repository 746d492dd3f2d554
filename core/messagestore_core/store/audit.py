"""The audit: one row for each action on the store, and for each hold added or released; append only."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from messagestore_core.clock import now
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Hold
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan, scan_in
from messagestore_core.store.schemas import AUDIT, literal

ATTEMPTS = 20
ALONE = Transaction("messagestore-audit", 0)
"""Of commits that add a row, and of those by which an erasure removes files: the later of two at once fails.

A row's file is there before its commit. A run without a grant may write one beside an erasure.
"""
_GONE = ("Invalid table version", "not found")
"""Said of what an erasure has removed meanwhile."""
_ADDED, _RELEASED = "HoldAdded", "HoldReleased"
ACTIONS = (
    *("Preview", "Approve", "Purge", "Scrub", "Erase", "Retry", "Pause", "Resume", "Reset", "Replay", "Redrive"),
    *(_ADDED, _RELEASED, "Adopt", "Upgrade", "Repair", "Delete"),
)
"""All that a row may be of; docs/store.md says what each means."""


@dataclass(frozen=True)
class AuditEntry:
    """One action: who asked, which run did it, under which rules, from which table version to which.

    ``detail`` is what was asked for (rules, holds, the preview's id …); rows with another detail are other rows.
    """

    at: datetime
    action: str
    run: str
    resource: Resource
    detail: dict[str, Any]
    version_before: int
    version_after: int
    counts: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    refers_to: str | None = None
    requested_by: str | None = None
    """Who asked for it; None: the one who wrote the resource's spec."""
    once: bool = False
    """Whether only one run of the resource writes the row."""


def add_audit(store: HeldStore, done: AuditEntry) -> None:
    """Append a row, durably; a run writes the same row once, however often it is repeated.

    It conflicts only with others of ``ALONE``, and a run without a grant may do it too.

    Raises:
        FencedError: the store was written under a newer epoch than this run's.
    """
    assert done.action in ACTIONS
    rules, resource = rules_text(done.detail), done.resource
    row = {
        "at": done.at,
        "action": done.action,
        "run": done.run,
        "refers_to": done.refers_to,
        "actor": f"{resource.kind}/{resource.namespace}/{resource.name}",
        "resource": f"{resource.namespace}/{resource.name}",
        "generation": resource.generation,
        "rules": rules,
        "table_version_before": done.version_before,
        "table_version_after": done.version_after,
        "counts": sorted(done.counts.items()),
        "bytes": done.bytes,
        "requested_by": done.requested_by or resource.requested_by,
    }
    same = (pc.field("action") == done.action) & (pc.field("rules") == rules)
    if not done.once:
        same = same & (pc.field("run") == done.run)
    for _ in range(ATTEMPTS):
        try:
            table = store.open_to_write("audit")
            if scan(table, ["run"], same).read_all().num_rows:
                return
            # A run that only reads doesn't upgrade the store, so the newest columns may be missing.
            columns = {field.name for field in table.schema().fields}
            rows = pa.Table.from_pylist([row], schema=AUDIT).select([name for name in AUDIT.names if name in columns])
            with store.step(f"audit-{done.action.lower()}"):
                write_deltalake(table, rows, mode="append", commit_properties=store.commit_properties(None, ALONE))
            return
        except (DeltaError, FileNotFoundError) as error:
            if not isinstance(error, CommitFailedError) and not any(sign in str(error) for sign in _GONE):
                raise
    raise RunFailedError("RunFailed", f"other runs keep writing {store.path('audit')}; no row was added")


def note(store: HeldStore, document: RunDocument, action: str, detail: dict[str, Any], **fields: Any) -> None:
    """Append a row about what a run does now; both versions are the present one of ``messages``.

    Args:
        fields: further fields of ``AuditEntry``.
    """
    version = store.table("messages").version()
    given = {"version_before": version, "version_after": version, **fields}
    add_audit(store, AuditEntry(now(document), action, document.run, document.resource, detail, **given))


def rules_text(detail: dict[str, Any]) -> str:
    """The value of column ``rules``."""
    return json.dumps(detail, sort_keys=True, separators=(",", ":"))


def rows_of(store: Store, *actions: str) -> list[dict[str, Any]]:
    """Columns action, rules, actor and counts of the rows of some actions."""
    wanted = pc.field("action").isin(pa.array(actions))
    columns = ["action", "rules", "actor", "counts"]
    rows = scan_in(store, "audit", columns, wanted).read_all()
    return [{**row, "counts": dict(row["counts"] or [])} for row in rows.to_pylist()]


def replace_rules(store: HeldStore, rules: str, by: str) -> None:
    """Replace the value of column ``rules`` in all rows that have it, durably."""
    with store.step("audit-hidden"):
        store.update_rows("audit", {"rules": literal(by)}, f"rules = {literal(rules)}")


def read_audit(store: Store) -> list[dict[str, Any]]:
    """All rows, oldest first."""
    order = [(name, "ascending") for name in ("at", "table_version_after", "table_version_before")]
    rows = store.table("audit").to_pyarrow_table().sort_by(order)
    return [{**row, "counts": dict(row["counts"] or [])} for row in rows.to_pylist()]


def note_holds(store: HeldStore, document: RunDocument) -> None:
    """Add rows for the stream's new holds, and for those that are gone."""
    new, gone = holds_to_note(store, document)
    for rules in sorted(new):
        note(store, document, _ADDED, json.loads(rules))
    for rules in sorted(gone):
        note(store, document, _RELEASED, json.loads(rules))


def holds_to_note(store: Store, document: RunDocument) -> tuple[set[str], set[str]]:
    """The new holds and those that are gone, as values of column ``rules``."""
    assert isinstance(document.task, IngestTask)
    given = {rules_text(_detail_of_hold(hold)) for hold in document.task.holds}
    known = _known_holds(store)
    return given - known, known - given


def _known_holds(store: Store) -> set[str]:
    rows = [row for row in rows_of(store, _ADDED, _RELEASED) if _tells_a_hold(row["rules"])]
    added = Counter(row["rules"] for row in rows if row["action"] == _ADDED)
    return set(added - Counter(row["rules"] for row in rows if row["action"] == _RELEASED))


def _tells_a_hold(rules: str | None) -> bool:
    """Whether a run has written a value of column ``rules``: others may have written to the store."""
    try:
        detail = json.loads(rules or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(detail, dict) and set(detail) == {"hold", "match", "until"} and rules == rules_text(detail)


def _detail_of_hold(hold: Hold) -> dict[str, Any]:
    """The detail of a hold, with a digest of its match, as that may name what is erased one day."""
    match = json.dumps(hold.match.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    until = hold.until.isoformat() if hold.until else None
    return {"hold": hold.name, "match": hashlib.sha256(match.encode()).hexdigest(), "until": until}
