"""Updates meet the messages that they are for; those that have no retry left then are set aside."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.lifecycle.commit import change_rows, commit_changes
from messagestore_jobs.lifecycle.context import Context
from messagestore_jobs.lifecycle.fold import Folded, Message, fold
from messagestore_jobs.lifecycle.set_aside import dead_letters
from messagestore_jobs.lifecycle.transitions import State, Update
from messagestore_jobs.native import with_native
from messagestore_jobs.reasons import DeadLetterReason
from messagestore_jobs.store.audit import Done, add_audit
from messagestore_jobs.store.dead_letters import places, set_aside, set_aside_for
from messagestore_jobs.store.delta_log import CommitNote, open_table
from messagestore_jobs.store.messages import Bounds, read_messages

_DETAIL = "it failed and has no retry left"

COLUMNS = (
    "message_id", "global_position", "inserted_date", "status", "retries", "next_retry_at", "expires_at"
)  # fmt: skip


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


def set_exhausted_aside(context: Context, messages: Sequence[Message], at: datetime, batch: str) -> None:
    """Set messages aside as their Native records, once by ``batch``; they stay in the store, as FAILED.

    A payload that lies in an object of its own is not in the record.
    """
    positions = [message.global_position for message in messages]
    days = sorted({message.inserted_date for message in messages})
    asked = context.spark.createDataFrame(pa.table({"global_position": pa.array(positions, pa.int64())}))
    rows = read_messages(context.spark, context.uri).where(Bounds(days, min(positions), max(positions)).condition())
    found = with_native(rows.join(F.broadcast(asked), "global_position", "left_semi"))
    records = found.orderBy("global_position").select(F.col("value").cast("binary").alias("raw"), "source").toArrow()
    reasons = [str(DeadLetterReason.RETRIES_EXHAUSTED)] * records.num_rows
    why = pa.table({"reason": reasons, "detail": [_DETAIL] * records.num_rows})
    letters = dead_letters(records["raw"], records["source"], why, at, batch)
    known = _set_aside_by(context.uri, batch, set(pc.struct_field(records["source"], "uri").to_pylist()))
    new = letters.filter(pa.array([place[:3] not in known for place in places(letters)], pa.bool_()))
    if new.num_rows:
        set_aside(context.uri, new)


def _set_aside_by(uri: str, batch: str, uris: set[str]) -> set[tuple[str, int | None, int]]:
    """Where the messages were read that an earlier try of the batch has set aside.

    Their record may be another by now: one that was due has been sent again meanwhile, say.
    """
    letters = set_aside_for(uri, uris, (DeadLetterReason.RETRIES_EXHAUSTED,))
    return {place[:3] for place in places(letters.filter(pc.equal(letters["batch"], batch)))}


def find_messages(spark: SparkSession, uri: str, message_ids: pa.Array, after: int | None = None) -> dict[str, Message]:
    """By id, those that are in the store; of several with one id the newest.

    One pass over the few columns that are asked for.

    Args:
        spark: the session.
        uri: the table folder.
        message_ids: any, repeated or not.
        after: only what has a larger global position; files with none such are not read.
    """
    asked = spark.createDataFrame(pa.table({"message_id": message_ids.unique()}))
    messages = read_messages(spark, uri).select(*COLUMNS)
    if after is not None:
        messages = messages.where(F.col("global_position") > F.lit(after))
    found = messages.join(F.broadcast(asked), "message_id", "left_semi").select(*COLUMNS).toArrow()
    rows = found.sort_by("global_position").to_pylist()
    return {row["message_id"]: message_of(row) for row in rows}


def message_of(row: dict[str, Any]) -> Message:
    """The message of a row of COLUMNS."""
    state = State(row["status"], row["retries"], row["next_retry_at"], row["expires_at"])
    return Message(row["global_position"], row["inserted_date"], state)
