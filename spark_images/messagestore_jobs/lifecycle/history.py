"""Rows of the table ``history``: of updates, which the driver has, and of messages that change by a condition."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.history import begin_history
from messagestore_core.store.schemas import HISTORY, HISTORY_ROWS
from messagestore_jobs.lifecycle.transitions import Applied
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import committing, refuse_foreign_to_spark


def history_rows(run: str, steps: Sequence[Applied], updates: pa.Table, at: datetime) -> pa.Table:
    """The rows of updates, of which it takes column error, that are applied at a time; without their step."""
    outcomes = pa.array([one.row if one.has_outcome else None for one in steps], pa.int64())
    columns = {
        "message_id": [one.message.message_id for one in steps],
        "global_position": [one.message.global_position for one in steps],
        "inserted_date": [one.message.inserted_date for one in steps],
        "at": [at] * len(steps),
        "attempt": [one.after.retries + (one.after.status != "FAILED") for one in steps],
        "from_status": [one.before.status for one in steps],
        "to_status": [one.after.status for one in steps],
        "next_retry_at": [one.after.next_retry_at for one in steps],
        "error": updates["error"].combine_chunks().take(outcomes),
        "run": [run] * len(steps),
        "row": [one.row for one in steps],
    }
    return pa.table({name: pa.array(values, HISTORY_ROWS.field(name).type) for name, values in columns.items()})


def append_history(
    spark: SparkSession, store: HeldStore, messages: DataFrame, to_status: str, step: tuple[str, int], run: str,
    at: datetime,
) -> None:  # fmt: skip
    """Write the rows of messages that a step gives another status, durably; they replace those of an earlier try.

    Args:
        messages: as they are before; columns message_id, global_position, inserted_date, status and retries.
        to_status: not FAILED.
        step: the step that the commit on ``messages`` ends.
    """
    if not begin_history(store, step):
        return
    step_id, number = step
    rows = messages.select(
        *("message_id", "global_position", "inserted_date"),
        instant(at).alias("at"),
        (F.col("retries") + 1).cast("int").alias("attempt"),
        F.col("status").alias("from_status"),
        F.lit(to_status).alias("to_status"),
        F.lit(None).cast("timestamp").alias("next_retry_at"),
        F.lit(None).cast("string").alias("error"),
        F.lit(run).alias("run"),
        F.lit(step_id).alias("step_id"),
        F.lit(number).cast("bigint").alias("step"),
        F.lit(store.version("messages")).cast("bigint").alias("table_version"),
        F.col("global_position").alias("row"),
    )
    refuse_foreign_to_spark(spark, store, HISTORY)
    with committing(spark, store, "history", table=HISTORY):
        rows.repartition("inserted_date").write.format("delta").mode("append").save(store.path(HISTORY))
