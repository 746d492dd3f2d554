"""Updates meet the messages that they are for."""

from datetime import datetime

import pyarrow as pa

from messagestore_jobs.lifecycle.commit import change_rows, commit_changes
from messagestore_jobs.lifecycle.context import Context
from messagestore_jobs.lifecycle.exhausted import set_exhausted_aside
from messagestore_jobs.lifecycle.fold import Folded, fold
from messagestore_jobs.lifecycle.lookup import find_messages
from messagestore_jobs.lifecycle.transitions import Update
from messagestore_jobs.store.audit import Done, add_audit
from messagestore_jobs.store.history import CommitNote, open_table


def without_erased(context: Context, updates: pa.Table) -> pa.Table:
    """The updates that are for no erased message: of one that is, nothing is kept."""
    if not updates.num_rows:
        return updates
    erased = context.erased.contains(updates["message_id"].combine_chunks())
    return updates.filter(pa.array(~erased)) if erased.any() else updates


def folded(context: Context, updates: pa.Table, at: datetime, after: int | None = None) -> Folded:
    """What the updates come to.

    Args:
        context: the run's.
        updates: columns message_id, status, time and attempt, in order of arrival.
        at: when they are taken in.
        after: look only for messages behind this global position.
    """
    if not updates.num_rows:
        return Folded({}, 0, 0, ())
    ids = updates["message_id"]
    messages = find_messages(context.spark, context.uri, ids.combine_chunks(), after)
    said = map(Update, *(updates[name].to_pylist() for name in ("status", "time", "attempt")))
    return fold(zip(ids.to_pylist(), said, strict=True), messages, context.retry, at)


def commit(
    context: Context, what: Folded, updates: pa.Table, at: datetime, step: tuple[str, int], note: CommitNote
) -> CommitNote:
    """Make the changes, once, in a commit that ends a step; returns its note."""
    if context.retry.set_aside and what.exhausted:
        set_exhausted_aside(context, what.exhausted, at, f"{step[0]}/{step[1]}")
    if what.retried:
        _audit_retries(context, what, at, f"{step[0]}/{step[1]}")
    rows = change_rows(what.changes, updates, at)
    commit_changes(context.spark, context.uri, what.changes, rows, step, note)
    return note


def _audit_retries(context: Context, what: Folded, at: datetime, batch: str) -> None:
    """Before the commit: no retry goes untold. Of a batch that is done again each run has a row, with its name."""
    version = open_table(context.uri, "messages").version()
    counts = {"retried": what.retried}
    add_audit(
        context.uri, Done(at, "Retry", context.run, context.resource, {"batch": batch}, version, version + 1, counts)
    )
