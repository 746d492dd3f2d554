"""Rules and holds as conditions over the columns of ``messages``.

Two limits depend on more than one message. For each the run finds where it cuts: a position in a stream, or a message
in order of age. Finding it reads narrow columns only, and then a comparison shows whether a message is beyond it.
"""

from datetime import datetime
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from messagestore_core.clock import shifted
from messagestore_core.contract.purge import Hold, Match, Rule
from messagestore_jobs.rows.matching import all_of, instant, matches, undecided

_HOUR = 3_600_000_000
"""In microseconds."""


def age() -> Column:
    """The time from which a message's age counts; a time in the future must not keep it for ever."""
    return F.least("time", "inserted_at")


def before(moment: datetime) -> Column:
    """Whether a message is older than ``moment``, by plain comparisons, which prune files by statistics."""
    return (F.col("time") < instant(moment)) | (F.col("inserted_at") < instant(moment))


def own_conditions(rule: Rule, as_of: datetime) -> list[Column]:
    """The conditions of a rule on a message itself: all but the two limits that depend on other messages."""
    conditions = []
    if rule.expired:
        conditions.append(F.col("expires_at") <= instant(as_of))
    if rule.statuses:
        conditions.append(F.col("status").isin(*rule.statuses))
    if rule.max_age is not None:
        conditions.append(before(shifted(as_of, -rule.max_age)))
    if rule.truncate_before is not None:
        conditions.append(F.col("stream_name") == F.lit(rule.truncate_before.stream_name))
        conditions.append(F.col("position") < F.lit(rule.truncate_before.position))
    if rule.match is not None and rule.match != Match():
        conditions.append(matches(rule.match))
    return conditions


def says_nothing(rule: Rule) -> bool:
    """Whether a rule has no condition; such a rule selects nothing, not everything."""
    empty = Rule(name=rule.name, erase=rule.erase)
    return rule == empty or rule == empty.model_copy(update={"match": Match()})


def unknown(rule: Rule, as_of: datetime) -> Column:
    """Whether ``where`` could not be evaluated on a message that matches all else in a rule; such a message stays."""
    if rule.match is None or rule.match.where is None:
        return F.lit(False)
    others = own_conditions(rule.model_copy(update={"match": None}), as_of)
    return F.coalesce(all_of([*others, undecided(rule.match)]), F.lit(False))


def held(holds: tuple[Hold, ...], as_of: datetime) -> Column:
    """Whether an active hold covers a message; a hold that could not be evaluated on it does."""
    conditions = [
        F.coalesce(matches(hold.match), F.lit(False)) | undecided(hold.match)
        for hold in holds
        if hold.until is None or hold.until > as_of
    ]
    return any_of(conditions)


def any_of(conditions: list[Column]) -> Column:
    """Any of the conditions; false without any."""
    return reduce(or_, conditions) if conditions else F.lit(False)


class Edge(NamedTuple):
    """The last message, by age (microseconds since 1970) and global position, that must go so that the bytes fit."""

    age: int
    global_position: int

    def reaches(self) -> Column:
        """Whether a message is up to the edge."""
        edge = F.timestamp_micros(F.lit(self.age))
        near = (F.col("time") <= edge) | (F.col("inserted_at") <= edge)
        same = (age() == edge) & (F.col("global_position") <= F.lit(self.global_position))
        return near & ((age() < edge) | same)


def cap_floors(messages: DataFrame, newest: int) -> DataFrame:
    """For each stream with more than ``newest`` messages, the highest position beyond these: stream_name, floor.

    Held messages count like all others.
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
    """The last of the oldest candidates that must go so that all payloads fit into ``maximum`` bytes; None: they fit.

    Held messages count and can't go, so the next oldest go instead. If all candidates together are not enough, the edge
    is the newest of them.
    """
    total = messages.agg(F.sum("payload_size")).first()
    excess = ((total and total[0]) or 0) - maximum
    if excess <= 0:
        return None
    free = F.when(held, F.lit(0)).otherwise(F.coalesce("payload_size", F.lit(0)))
    rows = messages.where(candidate).select(F.unix_micros(age()).alias("age"), "global_position", free.alias("free"))
    hour = F.expr(f"age div {_HOUR}")
    hours = rows.groupBy(hour.alias("hour")).agg(F.sum("free").alias("free")).orderBy("hour").collect()
    for row in hours:
        if row["free"] >= excess:
            return _edge_within(rows.where(hour == F.lit(row["hour"])), excess)
        excess -= row["free"]
    return None if rows.isEmpty() else _edge(rows, newest=True)


def _edge_within(rows: DataFrame, excess: int) -> Edge:
    so_far = Window.orderBy("age", "global_position").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return _edge(rows.withColumn("gone", F.sum("free").over(so_far)).where(F.col("gone") >= excess), newest=False)


def _edge(rows: DataFrame, *, newest: bool) -> Edge:
    pick = F.max if newest else F.min
    picked = rows.agg(pick(F.struct("age", "global_position")).alias("place")).select("place.*")
    return Edge(*picked.collect()[0])
