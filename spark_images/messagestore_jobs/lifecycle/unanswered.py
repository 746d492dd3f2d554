"""FAILED by the clock: attempts of which nobody said what became of them."""

from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_report import UpdateCounts
from messagestore_jobs.lifecycle.apply import commit
from messagestore_jobs.lifecycle.context import Context
from messagestore_jobs.lifecycle.fold import Folded, fold
from messagestore_jobs.lifecycle.lookup import COLUMNS, message_of
from messagestore_jobs.lifecycle.transitions import Update
from messagestore_jobs.store.history import CommitNote, committed_batch
from messagestore_jobs.store.messages import read_messages

STEP = "lifecycle-unanswered"
AT_ONCE = 250_000
"""Messages that the driver holds."""


def fail_unanswered(context: Context, at: datetime, timeout: timedelta, note: CommitNote) -> CommitNote:
    """Let those attempts fail that are PROCESSING since before the timeout; returns the note of the last commit.

    Each step ends with a commit of its own, so that one that was cut off is done again, and counted once.
    """
    while (due := _due(context, at, timeout)).changes:
        step = (STEP, committed_batch(context.uri, STEP) + 1)
        count = len(due.changes)
        words = f"no update came within {timeout.total_seconds():g} seconds"
        updates = pa.table({"result": pa.nulls(count, pa.binary()), "error": pa.repeat(pa.scalar(words), count)})
        counts = UpdateCounts(timed_out=count, exhausted=len(due.exhausted))
        note = commit(context, due, updates, at, step, context.noted(note, counts))
    return note


def _due(context: Context, at: datetime, timeout: timedelta) -> Folded:
    since = F.coalesce("updated_at", "inserted_at")
    unanswered = (F.col("status") == "PROCESSING") & (since <= F.lit(at - timeout))
    rows = read_messages(context.spark, context.uri).where(unanswered).select(*COLUMNS)
    found = rows.orderBy("global_position").limit(AT_ONCE).toArrow().to_pylist()
    # By position: several messages may have one id.
    messages = {str(row["global_position"]): message_of(row) for row in found}
    return fold([(place, Update("FAILED")) for place in messages], messages, context.retry, at)
