"""Remember the ids of purged messages, where the stream asks for that, before the messages are removed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.clock import microseconds
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.tombstones import made_key
from messagestore_jobs.index.read import hashed
from messagestore_jobs.purge.plan import Plan, PurgeRun, write_plan, written_rows
from messagestore_jobs.rows.messages import committing_on, read_messages, within
from messagestore_jobs.rows.tables import refuse_foreign_to_spark

_ROWS_A_FILE = 1_000_000


def remember_purged(context: PurgeRun, plan: Plan) -> None:
    """Add the ids of a plan's messages to the purged ones, durably. Erased ones have tombstones instead.

    The plan says so afterwards, so that a purge that broke off later does not add them again.
    """
    spark, store = context.spark, context.store
    count = plan.messages - plan.erased
    if store.remember_purged is None or plan.remembered or not count:
        return
    context.progress.step("remember ids", count)
    at = plan.decided_at
    rows = _leaving(context, plan).select(
        hashed(spark, made_key(store), "message_id").alias("message_key"),
        F.timestamp_micros(F.lit(microseconds(at))).alias("purged_at"),
        F.lit(at.date()).alias("purged_date"),
    )
    refuse_foreign_to_spark(spark, store, REMEMBERED)
    with committing_on(spark, store, REMEMBERED, "purged-ids"):
        rows.coalesce(-(-count // _ROWS_A_FILE)).write.format("delta").mode("append").save(store.path(REMEMBERED))
    write_plan(context, plan.model_copy(update={"remembered": True}))


def _leaving(context: PurgeRun, plan: Plan) -> DataFrame:
    """The messages that are purged and not erased: column message_id."""
    rows = written_rows(context, plan).where(~F.col("erase"))
    messages = within(read_messages(context.spark, context.store), rows)
    ids = messages.join(rows.select("global_position"), "global_position", "left_semi").select("message_id")
    if not plan.days:
        return ids
    days = read_messages(context.spark, context.store, plan.version_before)
    return ids.union(days.where(F.col("inserted_date").isin(*plan.days)).select("message_id"))
