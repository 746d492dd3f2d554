"""Scrubbing: the row stays, and what is named leaves its payload and headers."""

import os

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Scrub
from messagestore_jobs.purge.bounds import bounds
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.plan import Plan, frozen_rows
from messagestore_jobs.purge.remove import MERGE, note, settings
from messagestore_jobs.store.errors import RunFailedError
from messagestore_jobs.store.messages import committing, messages_table

REDACTED = "[redacted]"
"""What stands where a value was, by method Redact."""


def scrub(context: Context, plan: Plan) -> None:
    """Scrub the frozen rows in one commit; those that are scrubbed already are passed over.

    A payload that is no JSON can't be searched for paths: where paths are named, all of it leaves.
    """
    what = plan.task.scrub
    if what is None:
        raise RunFailedError("InvalidSpec", "action Scrub needs spec.scrub, which says what is removed")
    context.progress.step("scrub", plan.messages)
    rows = frozen_rows(context, plan).select("global_position", "inserted_date")
    where = bounds(rows)
    if where is None:
        return
    table = messages_table(context.spark, context.uri).alias("m")
    same = (F.col("m.global_position") == F.col("leaving.global_position")) & F.col("m.scrubbed_at").isNull()
    merge = table.merge(rows.select("global_position").alias("leaving"), where.condition("m") & same)
    with settings(context.spark, MERGE), committing(context.spark, "scrub-rows", note(context)):
        merge.whenMatchedUpdate(set=_changes(context, plan, what)).execute()
    context.progress.advance(plan.messages)


def _changes(context: Context, plan: Plan, what: Scrub) -> dict[str, Column]:
    raise NotImplementedError
