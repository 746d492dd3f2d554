"""Updates that came before their messages: apply them once these come, or set them aside after a time."""

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.clock import shifted
from messagestore_core.contract.ingest import UpdateCounts
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.delta_log import CommitNote, committed_batch, next_global_position
from messagestore_core.store.handle import Store
from messagestore_core.store.pending_updates import STEP, count_pending, drop_taken, read_pending, take
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.lifecycle.commit import LifecycleRun, commit, folded, still_unknown
from messagestore_jobs.lifecycle.transitions import Folded
from messagestore_jobs.lifecycle.updates import set_aside_once, to_dead_letters
from messagestore_jobs.rows.messages import read_messages


def waiting_for_erased(spark: SparkSession, store: Store, erased: Erased) -> list[str]:
    """The ids of erased messages for which updates wait, without those that another message in the store has."""
    waiting = pc.unique(read_pending(store)["message_id"])
    candidates = waiting.filter(pa.array(erased.contains(waiting)))
    if not len(candidates):
        return []
    ids = spark.createDataFrame(pa.table({"message_id": candidates}))
    rows = read_messages(spark, store).join(F.broadcast(ids), "message_id", "left_semi")
    messages = rows.select("message_id", "global_position").toArrow()
    gone = erased.contains_messages(messages["message_id"], messages["global_position"])
    existing = messages["message_id"].filter(pa.array(~gone))
    left: list[str] = candidates.filter(pc.invert(pc.is_in(candidates, existing.combine_chunks()))).to_pylist()
    return left


def was_interrupted(store: Store) -> bool:
    """Whether a step has begun and is not committed."""
    if not count_pending(store):
        return False
    taken = pc.max(read_pending(store)["taken"]).as_py()
    return taken is not None and taken > committed_batch(store, STEP)


def apply_waiting(context: LifecycleRun, at: datetime, pending_for: timedelta, note: CommitNote) -> CommitNote:
    """Apply waiting updates whose messages have come, and set overdue ones aside; return the note of the last commit.

    If none waits, only the log is read; if no messages have come since, no messages are read.
    """
    if not count_pending(context.store):
        return note
    rows = _left(context, read_pending(context.store))
    if not rows.num_rows:
        return note
    late = _met(context, rows, at)
    unknown = set(still_unknown(context, late, rows, at))
    since = rows["received_at"].to_pylist()
    given_up = {row for row in unknown if shifted(since[row], pending_for) <= at}
    resolved = [row for row in range(rows.num_rows) if row not in unknown or row in given_up]
    if not resolved:
        return note
    overdue = rows.take(pa.array(sorted(given_up), pa.int64()))
    step = (STEP, committed_batch(context.store, STEP) + 1)
    take(context.store, rows.take(pa.array(resolved, pa.int64())), step[1])
    counts = UpdateCounts(
        applied=late.applied,
        stale=late.stale + len(late.unknown) - len(unknown),
        dead_lettered=_set_aside(context, overdue, at, pending_for, step[1]),
        exhausted=len(late.exhausted),
        retried=late.retried,
    )
    note = commit(context, late, rows, at, step, context.noted(note, counts))
    drop_taken(context.store, step[1])
    return note


def _left(context: LifecycleRun, rows: pa.Table) -> pa.Table:
    """The waiting updates, after those of committed steps are deleted."""
    done = committed_batch(context.store, STEP)
    taken = pc.fill_null(pc.less_equal(rows["taken"], done), False)
    if pc.any(taken).as_py():
        drop_taken(context.store, done)
        return rows.filter(pc.invert(taken))
    return rows


def _met(context: LifecycleRun, rows: pa.Table, at: datetime) -> Folded:
    """Fold the updates whose messages have come meanwhile."""
    after = int(pc.min(rows["after"]).as_py())
    if next_global_position(context.store) <= after + 1:
        return Folded({}, (), 0, tuple(range(rows.num_rows)))
    return folded(context, rows, at, after)


def _set_aside(context: LifecycleRun, overdue: pa.Table, at: datetime, pending_for: timedelta, number: int) -> int:
    if not overdue.num_rows:
        return 0
    hours = pending_for.total_seconds() / 3600
    words = f"of a status update, no message with this messageId came within {hours:g} hours"
    why = {"reason": str(DeadLetterReason.UNKNOWN_MESSAGE), "detail": words}
    reason = {name: [text] * overdue.num_rows for name, text in why.items()}
    own = f"{STEP}/{number}"
    rows = pa.table({"raw": overdue["raw"], "message_id": overdue["message_id"], **reason})
    dead_letters = to_dead_letters(rows, overdue["source"], at, own)
    uris = set(pc.struct_field(overdue["source"], "uri").to_pylist())
    set_aside_once(context.store, dead_letters, own, uris)
    return int(overdue.num_rows)
