"""Columns that are added step by step, so that a later step can name what an earlier one computed.

They say nothing of a batch, so a run builds them once: each expression is a few calls into the JVM.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame

Projections = tuple[tuple[Column, ...], ...]


def with_projections(rows: DataFrame, steps: Projections) -> DataFrame:
    """``rows`` with the columns of each step in turn."""
    return reduce(lambda so_far, columns: so_far.select("*", *columns), steps, rows)
