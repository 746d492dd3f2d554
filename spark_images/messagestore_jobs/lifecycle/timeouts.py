"""What the clock alone does: open messages become EXPIRED, and attempts without an answer become FAILED."""

from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.clock import shifted
from messagestore_core.contract.run_report import UpdateCounts
from messagestore_core.store.delta_log import CommitNote, committed_batch
from messagestore_jobs.lifecycle.commit import COLUMNS, LifecycleRun, commit, message_of
from messagestore_jobs.lifecycle.expiry import FIRST_OPEN, is_any_due
from messagestore_jobs.lifecycle.transitions import Folded, Update, fold
from messagestore_jobs.rows.messages import committing, messages_table, read_messages
from messagestore_jobs.rows.times import instant

STEP = "lifecycle-unanswered"
AT_ONCE = 250_000
"""How many messages the driver holds at once."""


def is_open() -> Column:
    """Whether a message's status is not terminal."""
    retried = (F.col("status") == "FAILED") & F.col("next_retry_at").isNotNull()
    return (F.col("status") >= FIRST_OPEN) & (F.col("status").isin("RECEIVED", "PROCESSING") | retried)


def expire_due(context: LifecycleRun, at: datetime, note: CommitNote) -> CommitNote:
    """Expire due messages in one commit; return its note. If no file can have any, only the log is read."""
    if not is_any_due(context.store, at):
        return note
    due = (F.col("expires_at") <= instant(at)) & is_open()
    count = read_messages(context.spark, context.store).where(due).count()
    if not count:
        return note
    note = context.noted(note, UpdateCounts(expired=count))
    with committing(context.spark, context.store, "expire", note):
        messages_table(context.spark, context.store).update(
            due, {"status": F.lit("EXPIRED"), "next_retry_at": F.lit(None), "updated_at": instant(at)}
        )
    return note


def count_open(context: LifecycleRun) -> dict[str, int]:
    """How many messages are open, by status; files without any are not read."""
    counted = read_messages(context.spark, context.store).where(is_open()).groupBy("status").count().collect()
    return {row["status"]: row["count"] for row in sorted(counted)}


def fail_unanswered(context: LifecycleRun, at: datetime, timeout: timedelta, note: CommitNote) -> CommitNote:
    """Fail messages that are PROCESSING for longer than the timeout; return the note of the last commit.

    Each step has its own commit, so that a step that broke off is repeated, and counted once.
    """
    while (due := _due(context, at, timeout)).changes:
        step = (STEP, committed_batch(context.store, STEP) + 1)
        count = len(due.changes)
        words = f"no update came within {timeout.total_seconds():g} seconds"
        updates = pa.table({"result": pa.nulls(count, pa.binary()), "error": pa.repeat(pa.scalar(words), count)})
        counts = UpdateCounts(timed_out=count, exhausted=len(due.exhausted))
        note = commit(context, due, updates, at, step, context.noted(note, counts))
    return note


def _due(context: LifecycleRun, at: datetime, timeout: timedelta) -> Folded:
    since = F.coalesce("updated_at", "inserted_at")
    unanswered = (F.col("status") == "PROCESSING") & (since <= instant(shifted(at, -timeout)))
    rows = read_messages(context.spark, context.store).where(unanswered).select(*COLUMNS)
    due = rows.orderBy("global_position").limit(AT_ONCE).toArrow().to_pylist()
    # By position, as several messages may have the same id.
    messages = {str(row["global_position"]): message_of(row) for row in due}
    return fold([(position, Update("FAILED")) for position in messages], messages, context.retry, at)
