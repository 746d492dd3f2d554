"""Reads of ``messages`` that touch only the files in which given rows can lie."""

from datetime import date
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class Bounds(NamedTuple):
    """The days of some rows, and their first and last global position. Only literals prune files."""

    days: list[date]
    first: int
    last: int

    def condition(self, table: str = "") -> Column:
        """Whether a message lies within them; ``table`` is an alias to put before the columns."""
        prefix = f"{table}." if table else ""
        position = F.col(f"{prefix}global_position")
        return F.col(f"{prefix}inserted_date").isin(*self.days) & position.between(self.first, self.last)


def bounds(rows: DataFrame) -> Bounds | None:
    """The bounds of rows with inserted_date and global_position; None where there is no row."""
    found = rows.agg(
        F.collect_set("inserted_date").alias("days"),
        F.min("global_position").alias("first"),
        F.max("global_position").alias("last"),
    ).collect()[0]
    return Bounds(sorted(found["days"]), found["first"], found["last"]) if found["days"] else None


def within(messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages within the bounds of ``rows``."""
    found = bounds(rows)
    return messages.where(F.lit(False) if found is None else found.condition())
