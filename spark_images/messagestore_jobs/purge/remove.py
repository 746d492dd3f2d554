"""Taking the frozen rows out of ``messages``, and nothing else."""

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.plan import Plan, frozen_rows, written_rows
from messagestore_jobs.purge.whole_days import streams_of_days
from messagestore_jobs.session import settings
from messagestore_jobs.store.delta_log import DAY, files_of, open_table, table_state
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.heads import raise_heads
from messagestore_jobs.store.messages import MERGE, bounds, committing, messages_table, read_messages

_BROADCAST_ROWS = 2_000_000


def keep_heads(context: Context, plan: Plan) -> None:
    """Make the heads durable, so that no position that leaves is given again; also when a whole stream leaves."""
    context.progress.step("heads")
    streams = streams_of_days(context.uri, plan.version_before, plan.days)
    if plan.rows:
        rows = written_rows(context, plan).groupBy("stream_name").agg((F.max("position") + 1).alias("next_position"))
        streams = pa.concat_tables([streams, rows.toArrow().cast(streams.schema)])
    last = table_state(context.uri).last_global_position
    raise_heads(context.uri, streams, 0 if last is None else last + 1, _erased_whole(context, plan))


def _erased_whole(context: Context, plan: Plan) -> list[str]:
    """The streams of erased messages of which no message stays."""
    if not plan.erased:
        return []
    rows = frozen_rows(context, plan)
    streams = rows.where("erase").select("stream_name").distinct()
    messages = read_messages(context.spark, context.uri).join(F.broadcast(streams), "stream_name", "left_semi")
    staying = messages.join(rows.select("global_position"), "global_position", "left_anti").select("stream_name")
    left = streams.join(staying, "stream_name", "left_anti")
    return [row["stream_name"] for row in left.collect()]


def delete(context: Context, plan: Plan, by_day: dict[date, int]) -> None:
    """Delete the frozen rows; those that are gone already are passed over.

    Args:
        context: of the run.
        plan: whose rows leave.
        by_day: how many of the rows each day still has in the table.
    """
    context.progress.step("remove", plan.messages)
    counts = _rows_by_day(context.uri)
    whole = sorted(day for day, rows in by_day.items() if rows and counts.get(day) == rows)
    partly = sorted(day for day, rows in by_day.items() if rows and counts.get(day) != rows)
    if whole:
        _delete_days(context, whole)
    if partly:
        _delete_rows(context, frozen_rows(context, plan).where(F.col("inserted_date").isin(*partly)), plan.messages)
    context.progress.advance(plan.messages)


def _rows_by_day(uri: str) -> dict[date, int | None]:
    """How many rows each day has, by the log alone; None where a file does not tell."""
    files = files_of(open_table(uri, "messages"))
    if files.num_rows == 0:
        return {}
    every = pc.ScalarAggregateOptions(skip_nulls=False)
    counted = files.select([DAY, "num_records"]).group_by(DAY).aggregate([("num_records", "sum", every)])
    return dict(zip(counted[DAY].to_pylist(), counted["num_records_sum"].to_pylist(), strict=True))


def _delete_days(context: Context, days: list[date]) -> None:
    """Drop whole partitions by a commit that touches no file."""
    listed = ", ".join(f"'{day.isoformat()}'" for day in days)
    properties = commit_properties(context.uri, context.note())
    with external_write("delete-days"):
        open_to_write(context.uri, "messages").delete(f"inserted_date IN ({listed})", commit_properties=properties)


def _delete_rows(context: Context, rows: DataFrame, count: int) -> None:
    where = bounds(rows)
    if where is None:
        return
    leaving = rows.select("global_position")
    source = F.broadcast(leaving) if count <= _BROADCAST_ROWS else leaving
    same = F.col("m.global_position") == F.col("leaving.global_position")
    merge = (
        messages_table(context.spark, context.uri)
        .alias("m")
        .merge(source.alias("leaving"), where.condition("m") & same)
    )
    with settings(context.spark, MERGE), committing(context.spark, "delete-rows", context.note()):
        merge.whenMatchedDelete().execute()
