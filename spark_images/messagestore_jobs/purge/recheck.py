"""What of a frozen selection leaves by now: less what a hold covers and what has changed status since."""

from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.purge.applied import due
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.plan import Plan, frozen_rows, write_plan, write_rows
from messagestore_jobs.purge.rules import held
from messagestore_jobs.store.delta_log import open_table
from messagestore_jobs.store.messages import read_messages, within


@dataclass(frozen=True)
class Checked:
    """The plan as it stands, how many of its rows each day still has in the table, and how many a hold keeps by now."""

    plan: Plan
    by_day: dict[date, int]
    held: int = 0


def recheck(context: Context, plan: Plan) -> Checked:
    """Judge the frozen rows again at the table's current version, and freeze them anew where some of them stay.

    A row that is in the table no more has been removed by this very purge, unless the plan waited for approval: then
    another purge has taken it, and it is not this one's. A plan that waited is decided afterwards.
    """
    version = open_table(context.uri, "messages").version()
    rows = frozen_rows(context, plan)
    judged = rows.join(_found(context, plan, rows, version), "global_position", "left")
    there, scrubbed = F.col("now_status").isNotNull(), F.coalesce("now_scrubbed", F.lit(False))
    stays = F.coalesce(F.col("now_held") | (F.col("now_status") != F.col("status")), F.lit(False))
    stays = stays | ~there | scrubbed if plan.waiting else stays & ~scrubbed
    judged = judged.select(
        *rows.columns, there.alias("there"), stays.alias("stays"), F.coalesce("now_held", F.lit(False)).alias("held")
    ).cache()
    try:
        return _settle(context, plan, judged, version)
    finally:
        judged.unpersist()


def _found(context: Context, plan: Plan, rows: DataFrame, version: int) -> DataFrame:
    messages = within(read_messages(context.spark, context.uri, version), rows)
    what = plan.task.scrub if plan.task.action == "Scrub" else None
    return messages.select(
        "global_position",
        F.col("status").alias("now_status"),
        held(context.task.holds, context.as_of).alias("now_held"),
        (F.lit(False) if what is None else ~due(what)).alias("now_scrubbed"),
    ).join(rows.select("global_position"), "global_position", "left_semi")


def _settle(context: Context, plan: Plan, judged: DataFrame, version: int) -> Checked:
    leaves = ~F.col("stays")
    days = judged.groupBy("inserted_date").agg(
        F.count_if(leaves).alias("messages"),
        F.count_if(leaves & F.col("there")).alias("there"),
        F.sum(F.when(leaves, F.col("payload_size"))).alias("bytes"),
        F.count_if(leaves & F.col("erase")).alias("erased"),
        F.count_if(F.col("stays") & F.col("held")).alias("held"),
    )
    total = dict.fromkeys(("messages", "bytes", "erased", "held"), 0)
    by_day = {}
    for day in days.collect():
        by_day[day["inserted_date"]] = day["there"]
        total = {name: total[name] + (day[name] or 0) for name in total}
    kept_by_hold = total.pop("held")
    settled = plan
    if total["messages"] != plan.messages:
        settled = plan.model_copy(update={**total, "rows": plan.rows + 1, "days": ()})
        write_rows(context, settled, judged.where(leaves))
    if plan.waiting:
        settled = _decided(context, settled, version)
    if settled is not plan:
        write_plan(context, settled)
    return Checked(settled, by_day, kept_by_hold)


def _decided(context: Context, plan: Plan, version: int) -> Plan:
    """A plan that waited and is carried out now, by this run."""
    update = {"waiting": False, "run": context.run, "decided_at": context.as_of, "version_before": version}
    return plan.model_copy(update=update)
