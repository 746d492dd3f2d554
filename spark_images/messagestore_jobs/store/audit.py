"""The audit: one row for each thing done to the store; append only."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from messagestore_jobs.contract.run_document import Resource
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.literals import literal
from messagestore_jobs.store.schemas import AUDIT


@dataclass(frozen=True)
class Done:
    """One thing done: who, by which run, under which rules, from which table version to which.

    ``detail`` is what was asked for (rules, holds, the preview's id …); it is part of what makes a row the same again.
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


def add_audit(uri: str, done: Done) -> None:
    """Append a row, durably; the same run's same action is written once, however often the run is repeated."""
    rules = json.dumps(done.detail, sort_keys=True, separators=(",", ":"))
    resource = done.resource
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
    }
    same = (pc.field("run") == done.run) & (pc.field("action") == done.action) & (pc.field("rules") == rules)
    table = open_to_write(uri, "audit")
    if table.to_pyarrow_dataset().to_table(filter=same, columns=["run"]).num_rows:
        return
    with external_write(f"audit-{done.action.lower()}"):
        rows = pa.Table.from_pylist([row], schema=AUDIT)
        write_deltalake(table, rows, mode="append", commit_properties=commit_properties(uri))


def replace_rules(uri: str, rules: str, by: str) -> None:
    """Let rows say something else of what was asked for, durably."""
    with external_write("audit-hidden"):
        open_to_write(uri, "audit").update(
            {"rules": literal(by)}, predicate=f"rules = {literal(rules)}", commit_properties=commit_properties(uri)
        )


def read_audit(uri: str) -> list[dict[str, Any]]:
    """All rows, oldest first."""
    order = [(name, "ascending") for name in ("at", "table_version_after", "table_version_before")]
    rows = open_table(uri, "audit").to_pyarrow_table().sort_by(order)
    return [{**row, "counts": dict(row["counts"] or [])} for row in rows.to_pylist()]
