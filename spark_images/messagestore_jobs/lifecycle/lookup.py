"""The messages that updates are for, as the store has them now."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.lifecycle.fold import Message
from messagestore_jobs.lifecycle.transitions import State
from messagestore_jobs.store.messages import read_messages

COLUMNS = (
    "message_id", "global_position", "inserted_date", "status", "retries", "next_retry_at", "expires_at"
)  # fmt: skip


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
