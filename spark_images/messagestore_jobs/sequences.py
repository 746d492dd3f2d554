"""Message sequences in the store: their sizes, and which are complete, by column expressions alone.

A sequence is complete when its members 1 … size are all in the store. Any member may have the size; the member with the
end flag has it as its number. A number that two messages have counts once.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def declared_size() -> Column:
    """The size of its sequence that a message has: ``sequence_size``, or its number if it is the end; else null."""
    return F.coalesce(F.col("sequence_size"), F.when(F.col("sequence_end"), F.col("sequence_number")))


def members(messages: DataFrame) -> DataFrame:
    """The messages that belong to a sequence."""
    return messages.where(F.col("sequence_id").isNotNull())


def sizes(messages: DataFrame) -> DataFrame:
    """One row per sequence: columns sequence_id, size and last (the largest number so far, or null)."""
    return (
        members(messages)
        .groupBy("sequence_id")
        .agg(F.max(declared_size()).alias("size"), F.max("sequence_number").alias("last"))
    )


def states(messages: DataFrame) -> DataFrame:
    """One row per sequence: columns sequence_id, first_time (of its earliest message) and complete."""
    numbers = (
        members(messages)
        .groupBy("sequence_id", "sequence_number")
        .agg(F.max(declared_size()).alias("told"), F.min("time").alias("time"))
    )
    counted = numbers.groupBy("sequence_id").agg(
        F.max("told").alias("size"),
        F.count_if(F.col("sequence_number") >= 1).alias("members"),
        F.max("sequence_number").alias("last"),
        F.min("time").alias("first_time"),
    )
    complete = F.coalesce(F.expr("members = size AND last = size"), F.lit(False))
    return counted.select("sequence_id", "first_time", complete.alias("complete"))
