"""One batch of status updates: what each is worth, and the writes that make it part of the store, in their order.

First what is set aside, then what waits for its message; the commit on ``messages`` ends the batch.
"""

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_jobs.contract.run_report import UpdateCounts
from messagestore_jobs.lifecycle.apply import commit, folded, without_erased
from messagestore_jobs.lifecycle.context import Context
from messagestore_jobs.lifecycle.set_aside import dead_letters, set_aside_once, source_of
from messagestore_jobs.source.arrivals import Due
from messagestore_jobs.store.delta_log import CommitNote, table_state
from messagestore_jobs.store.pending_updates import count_pending, let_wait
from messagestore_jobs.store.schemas import PENDING_UPDATES, UTC


def take_in(context: Context, source_id: str, due: Due, records: pa.Table, note: CommitNote) -> CommitNote:
    """Take one batch into the store; returns the note of its commit, with the totals so far.

    Args:
        context: the run's.
        source_id: of the batch.
        due: the batch as it was written down.
        records: columns of ``read_updates``, in order of arrival.
        note: of the last commit.
    """
    set_aside = _set_aside(context, source_id, due, records.filter(pc.is_valid(records["reason"])))
    updates = without_erased(context, records.filter(pc.is_null(records["reason"])))
    last = table_state(context.uri).last_global_position or 0
    result = folded(context, updates, due.batch.at)
    waiting = updates.take(pa.array(result.unknown, pa.int64()))
    # An earlier try of the batch may have let updates wait whose messages are there by now.
    if waiting.num_rows or (due.read_before and count_pending(context.uri)):
        let_wait(context.uri, _pending(waiting, source_id, due, last), source_id, due.batch.number)
    counts = UpdateCounts(
        received=records.num_rows,
        applied=result.applied,
        # What was set aside before, and what is for an erased message, changes nothing either.
        stale=records.num_rows - result.applied - set_aside - waiting.num_rows,
        dead_lettered=set_aside,
        exhausted=len(result.exhausted),
        retried=result.retried,
    )
    step = (source_id, due.batch.number)
    return commit(context, result, updates, due.batch.at, step, context.noted(note, counts))


def _set_aside(context: Context, source_id: str, due: Due, bad: pa.Table) -> int:
    own = f"{source_id}/{due.batch.number}"
    letters = dead_letters(bad["raw"], source_of(bad), bad, due.batch.at, own)
    return set_aside_once(context.uri, letters, own, due.read_before)


def _pending(waiting: pa.Table, source_id: str, due: Due, last_global_position: int) -> pa.Table:
    """Rows of PENDING_UPDATES."""
    rows = waiting.num_rows
    columns = {name: waiting[name] for name in ("message_id", "status", "result", "error", "time", "attempt", "raw")}
    columns |= {
        "received_at": pa.repeat(pa.scalar(due.batch.at, UTC), rows),
        "source": source_of(waiting),
        "after": pa.repeat(pa.scalar(last_global_position), rows),
        "source_id": pa.repeat(pa.scalar(source_id), rows),
        "batch": pa.repeat(pa.scalar(due.batch.number), rows),
        "row": pa.array(range(rows), pa.int64()),
        "taken": pa.nulls(rows, pa.int64()),
    }
    return pa.table({name: columns[name] for name in PENDING_UPDATES.names}).cast(PENDING_UPDATES)
