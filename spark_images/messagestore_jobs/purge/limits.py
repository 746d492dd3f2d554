"""The two limits that look at more than one message, each brought down to where it cuts.

Where a limit cuts is a position in a stream, or a place in the order of age: with it, whether a message is past the
limit is a comparison, and only the narrow columns are read to find it.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from messagestore_jobs.purge.rules import age

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Edge(NamedTuple):
    """The last message, by age and then by global position, that must go for the bytes to fit."""

    age: datetime
    global_position: int

    def reaches(self) -> Column:
        """Whether a message is not past the edge."""
        near = (F.col("time") <= F.lit(self.age)) | (F.col("inserted_at") <= F.lit(self.age))
        same = (age() == F.lit(self.age)) & (F.col("global_position") <= F.lit(self.global_position))
        return near & ((age() < F.lit(self.age)) | same)


def cap_floors(messages: DataFrame, newest: int) -> DataFrame:
    """For each stream with more than ``newest`` messages, the highest position past them: stream_name, floor.

    Messages that a hold keeps count like any other.
    """
    long = messages.groupBy("stream_name").count().where(F.col("count") > newest).select("stream_name")
    newest_first = Window.partitionBy("stream_name").orderBy(F.desc("position"))
    ranked = messages.select("stream_name", "position").join(long, "stream_name", "left_semi")
    return (
        ranked.withColumn("rank", F.row_number().over(newest_first))
        .where(F.col("rank") == newest + 1)
        .select("stream_name", F.col("position").alias("floor"))
    )


def bytes_edge(messages: DataFrame, candidate: Column, held: Column, maximum: int) -> Edge | None:
    """How far the oldest candidates must go so that the table's payloads fit into ``maximum`` bytes; None: they fit.

    Held messages count and can't go, so the next oldest goes for them. Where all candidates together are not enough,
    the edge is the newest of them.
    """
    total = messages.agg(F.sum("payload_size")).first()
    excess = ((total and total[0]) or 0) - maximum
    if excess <= 0:
        return None
    free = F.when(held, F.lit(0)).otherwise(F.coalesce("payload_size", F.lit(0)))
    rows = messages.where(candidate).select(age().alias("age"), "global_position", free.alias("free"))
    hour = F.date_trunc("hour", "age")
    hours = rows.groupBy(hour.alias("hour")).agg(F.sum("free").alias("free")).orderBy("hour").collect()
    for row in hours:
        if row["free"] >= excess:
            return _edge_within(rows.where(hour == F.lit(row["hour"])), excess)
        excess -= row["free"]
    return _last(rows)


def _edge_within(rows: DataFrame, excess: int) -> Edge:
    so_far = Window.orderBy("age", "global_position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return _edge(rows.withColumn("gone", F.sum("free").over(so_far)).where(F.col("gone") >= excess), newest=False)


def _last(rows: DataFrame) -> Edge | None:
    return None if rows.isEmpty() else _edge(rows, newest=True)


def _edge(rows: DataFrame, *, newest: bool) -> Edge:
    pick = F.max if newest else F.min
    place = rows.agg(pick(F.struct("age", "global_position")).alias("place")).select(
        # Microseconds, as a timestamp that is collected loses its zone.
        F.unix_micros("place.age").alias("age"),
        "place.global_position",
    )
    found = place.collect()[0]
    return Edge(_EPOCH + timedelta(microseconds=found["age"]), found["global_position"])
