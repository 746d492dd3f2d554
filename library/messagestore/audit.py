"""Read a store's audit: what was done to it, by whom, and by which rules."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from messagestore import sql
from messagestore.arguments import batch_limit, time_in_utc
from messagestore.errors import ArgumentError
from messagestore.versions import Versions
from messagestore_core.store.audit import ACTIONS
from messagestore_core.store.schemas import AUDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One thing that was done; docs/store.md has the actions.

    Attributes:
        refers_to: the run whose row it completes, as an erasure does with its purge.
        actor: kind, namespace and name of the resource.
        rules: what was asked for.
        requested_by: who asked, where known.
    """

    at: datetime
    action: str
    run: str
    refers_to: str | None = None
    actor: str | None = None
    resource: str | None = None
    generation: int | None = None
    rules: Any = None
    table_version_before: int | None = None
    table_version_after: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    bytes: int | None = None
    requested_by: str | None = None


def audit_rows(versions: Versions, actions: Sequence[str], since: datetime | None, batch_size: int | None) -> pa.Table:
    """The rows of ``messagestore.reader.Reader.audit``."""
    unknown = [action for action in actions if action not in ACTIONS]
    if unknown:
        raise ArgumentError(f"no row is of {', '.join(unknown)}; actions are {', '.join(ACTIONS)}")
    where = [
        *([sql.one_of("action", actions)] if actions else []),
        *([sql.since("at", time_in_utc("since", since))] if since else []),
    ]
    return versions.other("audit", AUDIT).rows(where, ("at desc", "run", "action"), batch_limit(batch_size))


def audit_of(rows: pa.Table) -> Iterator[AuditRow]:
    """The audit of rows."""
    return (AuditRow(**row | _read(row)) for row in rows.to_pylist())


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    rules = row["rules"]
    try:
        value = None if rules is None else json.loads(rules)
    except (ValueError, RecursionError):
        value = rules
    return {"rules": value, "counts": dict(row["counts"] or ())}
