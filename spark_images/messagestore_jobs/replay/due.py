"""Failed messages whose retry is due, and which of them are held back behind others of their group."""

from datetime import datetime
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def due_for_retry(
    rows: DataFrame, messages: DataFrame, held_back: Literal["Retrying", "Failed"] | None, now: datetime
) -> DataFrame:
    """Of ``rows``, those that have failed, are due by now and have not expired.

    With ``held_back`` only the first of a group goes: of all messages of one correlation id, the earliest that has
    failed or is tried again. One that has failed for good is such only where that is ``Failed``.

    Args:
        rows: messages, selected or not.
        messages: all there are.
        held_back: by what.
        now: the clock.
    """
    lasts = F.col("expires_at").isNull() | (F.col("expires_at") > F.lit(now))
    due = rows.where((F.col("status") == "FAILED") & (F.col("next_retry_at") <= F.lit(now)) & lasts)
    if held_back is None:
        return due
    first = (
        messages.where(_has_failed(held_back) & F.col("correlation_id").isNotNull())
        .groupBy("correlation_id")
        .agg(F.min("global_position").alias("_first"))
    )
    grouped = due.join(first, "correlation_id", "left").where("_first IS NULL OR _first = global_position")
    return grouped.select(*rows.columns)


def _has_failed(held_back: str) -> Column:
    failed = F.col("status") == "FAILED"
    if held_back == "Retrying":
        failed = failed & F.col("next_retry_at").isNotNull()
    # The first comparison alone reaches the files' statistics.
    return (F.col("status") >= "FAILED") & (failed | ((F.col("status") == "PROCESSING") & (F.col("retries") > 0)))
