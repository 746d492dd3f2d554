"""Hide values in the audit: those by which rules selected erased messages."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.contract.purge import PurgeTask
from messagestore_core.store.audit import read_audit, replace_rules
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads, read_hidden_heads
from messagestore_core.store.keyed import message_key
from messagestore_core.store.tombstones import Erased, names_in
from messagestore_jobs.context import Run

_HIDDEN = "hmac-sha256:"
_HIDDEN_CATEGORY = "hmac_sha256:"
"""A category has no dash, and a plan is read again."""
_SELECTORS = ("match", "truncateBefore", "select")


def hidden(
    detail: Any, key: bytes, within: bool = False, which: Callable[[str], bool] = lambda _: True, member: str = ""
) -> Any:
    """The detail with keyed hashes of texts in matches; with the key one can check for a value.

    The detail is of a row of the audit, or a plan's task, or ``within`` a match already, of which it is a ``member``.
    ``which`` chooses texts.
    """
    if isinstance(detail, dict):
        return {name: hidden(value, key, within or name in _SELECTORS, which, name) for name, value in detail.items()}
    if isinstance(detail, list | tuple):
        return [hidden(value, key, within, which, member) for value in detail]
    prefix = _HIDDEN_CATEGORY if member == "categories" else _HIDDEN
    if within and isinstance(detail, str) and not detail.startswith((_HIDDEN, _HIDDEN_CATEGORY)) and which(detail):
        return f"{prefix}{message_key(key, detail)}"
    return detail


def without_erased(task: PurgeTask, erased: Erased, heads: HiddenHeads) -> PurgeTask:
    """The task without names of erased messages, and of streams that had only erased ones, in its matches."""
    document = task.model_dump(mode="json", by_alias=True)
    less = hidden(document, erased.key, which=lambda text: _names_erased(text, erased, heads))
    return task if less == document else PurgeTask.model_validate(less)


def hidden_streams(rows: pa.Table, heads: HiddenHeads) -> list[str]:
    """The names in column stream_name of streams that had only erased messages."""
    return [name for name in pc.unique(rows["stream_name"]).to_pylist() if name is not None and heads.hides(name)]


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
        text = row["rules"] or ""
        less = _less(text, erased, heads)
        if less != text:
            yield row, less


def _names_erased(text: str, erased: Erased, heads: HiddenHeads) -> bool:
    return erased.named_in(text.encode()) or any(map(heads.hides, names_in(text)))


def _less(text: str, erased: Erased, heads: HiddenHeads) -> str:
    """The new value of column ``rules``; the old one if it names nothing erased."""
    if not _names_erased(text, erased, heads):
        return text
    try:
        detail = json.loads(text)
        less = hidden(detail, erased.key)
    except (ValueError, RecursionError):
        return text
    return text if less == detail else json.dumps(less, sort_keys=True, separators=(",", ":"))
