"""What a purge or a scrub does to the history of its messages. Each step may be repeated."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.store.handle import Store
from messagestore_core.store.history import days_of_history, forget_days, history_table
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import HISTORY
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.rows.messages import MERGE, bounds, committing, merging
from messagestore_jobs.session import settings


def forget_history(
    context: PurgeRun, rows: DataFrame, days: Iterable[date], rows_left: Callable[[], Mapping[date, int]]
) -> None:
    """Remove the history of messages that have left the table; of the rows columns global_position and inserted_date.

    How many messages each day still has is asked if any of the days has history.
    """
    spark, store = context.spark, context.store
    known = days_of_history(store) & set(days)
    left = rows_left() if known else {}
    forget_days(store, [day for day in known if not left.get(day)])
    partly = [day for day in known if left.get(day)]
    if partly:
        context.between_commits()
        merge = _merge(context, rows.where(F.col("inserted_date").isin(*partly)))
        if merge is not None:
            with settings(spark, MERGE), committing(spark, store, "history-rows", table=HISTORY):
                merge.whenMatchedDelete().execute()


def scrub_history(context: PurgeRun, rows: DataFrame) -> None:
    """Remove the errors in the history of messages; columns as in ``forget_history``."""
    spark, store = context.spark, context.store
    merge = _merge(context, rows) if days_of_history(store) else None
    if merge is not None:
        with settings(spark, MERGE), committing(spark, store, "history-scrub", table=HISTORY):
            merge.whenMatchedUpdate(F.col("m.error").isNotNull(), {"error": F.lit(None)}).execute()


def history_left(store: Store, erased: npt.NDArray[np.int64]) -> Iterator[str]:
    """What the history has of messages at erased global positions, ascending, for people."""
    table = history_table(store)
    if table is None or not len(erased):
        return
    position = pc.field("global_position")
    batches = scan(table, ["global_position"], (position >= int(erased[0])) & (position <= int(erased[-1])))
    if any(np.isin(batch["global_position"].to_numpy(), erased).any() for batch in batches):
        yield f"{HISTORY} has a row of an erased message"


def _merge(context: PurgeRun, rows: DataFrame) -> DeltaMergeBuilder | None:
    """A merge with the history ``m`` of messages; None without any."""
    where = bounds(rows)
    if where is None:
        return None
    return merging(context.spark, context.store, rows.select("global_position"), where, HISTORY)
