"""Hide values in the audit: those by which rules selected erased messages."""

import json
from collections.abc import Iterator
from typing import Any

from messagestore_core.store.audit import read_audit, replace_rules
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads, read_hidden_heads
from messagestore_core.store.keyed import message_key
from messagestore_core.store.tombstones import Erased, names_in
from messagestore_jobs.context import Run

_HIDDEN = "hmac-sha256:"
_SELECTORS = ("match", "truncateBefore", "select")


def hidden(detail: Any, key: bytes, within: bool = False) -> Any:
    """The detail with keyed hashes of all texts in matches; with the key one can check for a value."""
    if isinstance(detail, dict):
        return {name: hidden(value, key, within or name in _SELECTORS) for name, value in detail.items()}
    if isinstance(detail, list | tuple):
        return [hidden(value, key, within) for value in detail]
    if within and isinstance(detail, str) and not detail.startswith(_HIDDEN):
        return f"{_HIDDEN}{message_key(key, detail)}"
    return detail


def hide_in_audit(context: Run, erased: Erased) -> None:
    """Hide values in rows that name something erased: rows of other rules, or of earlier releases."""
    for row, less in _in_clear(context.store, erased):
        replace_rules(context.store, row["rules"], less)


def in_clear(store: Store, erased: Erased) -> Iterator[str]:
    """Rows of the audit that name something erased, for people."""
    for row, _ in _in_clear(store, erased):
        yield f"the row of run {row['run']} in audit names an erased message"


def _in_clear(store: Store, erased: Erased) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows that name something erased, and their new values of column ``rules``."""
    heads = read_hidden_heads(store)
    for row in read_audit(store):
        told = row["rules"] or ""
        less = _less(told, erased, heads)
        if less != told:
            yield row, less


def _less(told: str, erased: Erased, heads: HiddenHeads) -> str:
    """The new value of column ``rules``; the old one if it names nothing erased."""
    if not erased.named_in(told.encode()) and not any(map(heads.hides, names_in(told))):
        return told
    try:
        detail = json.loads(told)
        less = hidden(detail, erased.key)
    except (ValueError, RecursionError):
        return told
    return told if less == detail else json.dumps(less, sort_keys=True, separators=(",", ":"))
