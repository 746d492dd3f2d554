"""Carry out a frozen plan: check which of its messages still leave, and remove or scrub them.

Each step may be repeated; their order keeps the store consistent.
"""

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.clock import microseconds, shifted
from messagestore_core.store.audit import AuditEntry, add_audit
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_core.store.delta_log import DAY, count_rows, files_of, next_global_position
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.pending_updates import count_pending, forget_pending
from messagestore_core.store.purges import Plan
from messagestore_core.store.schemas import REMEMBERED
from messagestore_core.store.statistics import complete
from messagestore_core.store.tombstones import add_tombstones, made_key, open_erased, tombstone_key, withdraw_tombstones
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.frozen.purges import forget, frozen_rows, messages_of, write_plan, write_rows, written_rows
from messagestore_jobs.index.read import Leaving, hashed
from messagestore_jobs.index.store_index import kept_index
from messagestore_jobs.lifecycle.waiting import waiting_for_erased
from messagestore_jobs.purge.archive import archive
from messagestore_jobs.purge.claim_checks import delete_claim_checks
from messagestore_jobs.purge.consumers import awaited
from messagestore_jobs.purge.dead_letters import dead_letters_naming, delete_dead_letters, forget_copies
from messagestore_jobs.purge.erase import DUE_BY
from messagestore_jobs.purge.hidden import hidden
from messagestore_jobs.purge.history import forget_history
from messagestore_jobs.purge.rules import held
from messagestore_jobs.purge.scrub import is_due, scrub
from messagestore_jobs.purge.whole_days import streams_of_days
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import MERGE, bounds, committing, merging, read_messages, refuse_foreign_to_spark
from messagestore_jobs.session import settings

_BROADCAST_ROWS = 2_000_000

_ROWS_A_FILE = 1_000_000


@dataclass(frozen=True)
class Checked:
    """The current plan, how many of its rows each day still has in the table, and how many a hold keeps by now."""

    plan: Plan
    by_day: dict[date, int]
    held: int = 0


def recheck(context: PurgeRun, plan: Plan) -> Checked:
    """Judge the frozen rows again at the table's current version, and freeze them again if some must stay.

    If a row is gone from the table, this purge has removed it, unless the plan waited for approval: then another purge
    has, and the row doesn't count here. A plan that waited is decided afterwards. Of rows that stay, tombstones that
    the plan has written are withdrawn.
    """
    version = context.store.table("messages").version()
    rows = frozen_rows(context, plan)
    rechecked = rows.join(_current_state(context, plan, rows, version), "global_position", "left")
    exists, scrubbed = F.col("now_status").isNotNull(), F.coalesce("now_scrubbed", F.lit(False))
    keeps = F.coalesce(F.col("now_held") | (F.col("now_status") != F.col("status")), F.lit(False))
    keeps = keeps | ~exists | scrubbed if plan.waiting else keeps & ~scrubbed
    rechecked = rechecked.select(
        *rows.columns, exists.alias("there"), keeps.alias("stays"), F.coalesce("now_held", F.lit(False)).alias("held")
    ).cache()
    try:
        return _refreeze(context, plan, rechecked, version)
    finally:
        rechecked.unpersist()


@dataclass(frozen=True)
class PurgeResult:
    """What carrying out one plan did."""

    purged: int
    scrubbed: int
    archived: int
    erased: int
    held: int
    dead_letters: int
    erase_due_by: datetime | None


def execute_plan(context: PurgeRun, checked: Checked) -> PurgeResult:
    """Archive, add tombstones, raise heads, remember ids, remove or scrub, and note it; then the plan is done.

    Raises:
        RunStoppedError: the run was told to stop; the next purge of any policy goes on.
    """
    plan = checked.plan
    context.between_commits()
    archived = archive(context, plan)
    deletes = plan.task.action == "Delete"
    if plan.messages:
        context.between_commits()
        _remember_erased(context, plan)
        context.between_commits()
        if deletes:
            keep_heads(context, plan)
            remember_purged(context, plan)
            context.between_commits()
            delete_frozen(context, plan, checked.by_day)
            forget_history(context, frozen_rows(context, plan), checked.by_day, partial(_rows_by_day, context.store))
            if plan.erased:
                delete_claim_checks(context, frozen_rows(context, plan).where("erase"))
        else:
            scrub(context, plan)
    context.between_commits()
    if plan.dead_letters_before is not None:
        delete_dead_letters(context.store, plan.dead_letters_before)
    changes = plan.messages and not deletes
    result = PurgeResult(
        purged=plan.messages if deletes else 0,
        scrubbed=0 if deletes else plan.messages,
        archived=archived,
        erased=plan.erased,
        held=checked.held,
        dead_letters=plan.dead_letters,
        erase_due_by=shifted(plan.decided_at, plan.task.erase_within) if plan.erased or changes else None,
    )
    _audit(context, plan, result)
    forget(context, plan)
    return result


def keep_heads(context: PurgeRun, plan: Plan) -> None:
    """Raise the heads, so that no removed position is given again, even if a whole stream leaves."""
    context.progress.step("heads")
    streams = streams_of_days(context.store, plan.version_before, plan.days)
    if plan.rows:
        # An erasure has taken out names of streams whose heads were raised.
        named = written_rows(context, plan).where("stream_name IS NOT NULL")
        rows = named.groupBy("stream_name").agg((F.max("position") + 1).alias("next_position"))
        streams = pa.concat_tables([streams, rows.toArrow().cast(streams.schema)])
    raise_heads(context.store, streams, next_global_position(context.store), _erased_whole(context, plan))


def delete_frozen(context: PurgeRun, plan: Plan, by_day: dict[date, int]) -> None:
    """Delete the frozen rows that are still in the table: so many of each day."""
    context.progress.step("remove", plan.messages)
    counts = _rows_by_day(context.store)
    whole = sorted(day for day, rows in by_day.items() if rows and counts.get(day) == rows)
    partly = sorted(day for day, rows in by_day.items() if rows and counts.get(day) != rows)
    if whole:
        _delete_days(context, whole)
    if partly:
        context.between_commits()
        rows = frozen_rows(context, plan).where(F.col("inserted_date").isin(*partly))
        _delete_rows(context, rows, sum(by_day[day] for day in partly))
    context.progress.advance(plan.messages)


def _current_state(context: PurgeRun, plan: Plan, rows: DataFrame, version: int) -> DataFrame:
    what = plan.task.scrub if plan.task.action == "Scrub" else None
    return messages_of(context, rows, version).select(
        "global_position",
        F.col("status").alias("now_status"),
        held(context.task.holds, context.as_of).alias("now_held"),
        (F.lit(False) if what is None else ~is_due(what)).alias("now_scrubbed"),
    )


def _refreeze(context: PurgeRun, plan: Plan, rechecked: DataFrame, version: int) -> Checked:
    leaves = ~F.col("stays")
    days = rechecked.groupBy("inserted_date").agg(
        F.count_if(leaves).alias("messages"),
        F.count_if(leaves & F.col("there")).alias("there"),
        F.sum(F.when(leaves, F.col("payload_size"))).alias("bytes"),
        F.count_if(leaves & F.col("erase")).alias("erased"),
        F.count_if(F.col("stays") & F.col("held")).alias("held"),
        F.count_if(F.col("stays") & F.col("there") & F.col("erase")).alias("not_erased"),
    )
    total = {"messages": plan.removed, "bytes": plan.removed_bytes, "erased": 0, "held": 0, "not_erased": 0}
    by_day = {}
    for day in days.collect():
        by_day[day["inserted_date"]] = day["there"]
        total = {name: total[name] + (day[name] or 0) for name in total}
    kept_by_hold = total.pop("held")
    if total.pop("not_erased"):
        # Before the plan forgets them: no later run would look for their tombstones.
        staying = rechecked.where("stays AND there AND erase").select("global_position").toArrow()
        withdraw_tombstones(context.store, staying["global_position"])
    refrozen = plan
    if total["messages"] != plan.messages:
        refrozen = plan.model_copy(update={**total, "rows": plan.rows + 1, "days": ()})
        write_rows(context, refrozen, rechecked.where(leaves))
    if plan.waiting:
        decided = {"run": context.run, "decided_at": context.as_of, "version_before": version}
        refrozen = refrozen.model_copy(update={"waiting": False, **decided})
    if refrozen is not plan:
        write_plan(context, refrozen)
    return Checked(refrozen, by_day, kept_by_hold)


def _remember_erased(context: PurgeRun, plan: Plan) -> None:
    if not plan.erased:
        return
    rows = frozen_rows(context, plan).where("erase")
    erased = messages_of(context, rows).select("global_position", *NAME_COLUMNS).toArrow()
    message_ids = erased["message_id"].to_pylist()
    if message_ids:
        positions = zip(message_ids, erased["global_position"].to_pylist(), strict=True)
        add_tombstones(context.store, positions, _erased_at(context), plan.run)
        forget_copies(context, dead_letters_naming(plan, erased))
        if count_pending(context.store):
            waiting = waiting_for_erased(context.spark, context.store, open_erased(context.store))
            forget_pending(context.store, waiting)


def _erased_at(context: PurgeRun) -> datetime:
    """The time of the run, or of the newest message if that is later, as an ingest's clock may be ahead."""
    messages = read_messages(context.spark, context.store)
    ahead = (F.col("inserted_date") >= context.as_of.date()) & (F.col("inserted_at") > instant(context.as_of))
    newest = messages.where(ahead).agg(F.max("inserted_at").alias("at")).toArrow()["at"][0].as_py()
    return max(context.as_of, newest or context.as_of)


def _audit(context: PurgeRun, plan: Plan, result: PurgeResult) -> None:
    task = plan.task
    detail: dict[str, Any] = {"preview": plan.preview.id, "asOf": plan.preview.as_of.isoformat()}
    detail |= task.model_dump(mode="json", by_alias=True, include={"rules", "holds", "action", "scrub", "archive"})
    names = {name for rule in task.rules for name in awaited(rule)}
    if names:
        cursors = plan.preview.subscriptions
        detail["cursors"] = {one.name: one.global_position for one in cursors if one.name in names}
    if plan.erased:
        detail = hidden(detail, tombstone_key(context.store) or b"")
    if result.erase_due_by is not None:
        detail[DUE_BY] = result.erase_due_by.isoformat()
    left = count_rows(context.store, "messages")
    done = AuditEntry(
        at=plan.decided_at,
        action="Purge" if task.action == "Delete" else "Scrub",
        run=plan.run,
        resource=plan.resource,
        detail=detail,
        version_before=plan.version_before,
        version_after=context.store.table("messages").version(),
        counts={
            "purged": result.purged,
            "scrubbed": result.scrubbed,
            "archived": result.archived,
            "erased": result.erased,
            "deadLetters": result.dead_letters,
            "messagesBefore": left + result.purged,
            "messagesAfter": left,
        },
        bytes=plan.bytes,
    )
    context.progress.step("audit")
    add_audit(context.store, done)


def _erased_whole(context: PurgeRun, plan: Plan) -> list[str]:
    """The streams that had only erased messages."""
    if not plan.erased:
        return []
    rows = frozen_rows(context, plan)
    streams = rows.where("erase AND stream_name IS NOT NULL").select("stream_name").distinct()
    messages = read_messages(context.spark, context.store).join(F.broadcast(streams), "stream_name", "left_semi")
    staying = messages.join(rows.select("global_position"), "global_position", "left_anti").select("stream_name")
    left = streams.join(staying, "stream_name", "left_anti")
    return [row["stream_name"] for row in left.collect()]


def _rows_by_day(store: Store) -> dict[date, int]:
    """How many rows each day has."""
    files = complete(store, "messages", files_of(store.table("messages")))
    if files.num_rows == 0:
        return {}
    counted = files.select([DAY, "num_records"]).group_by(DAY).aggregate([("num_records", "sum")])
    return dict(zip(counted[DAY].to_pylist(), counted["num_records_sum"].to_pylist(), strict=True))


def _delete_days(context: PurgeRun, days: list[date]) -> None:
    """Drop whole partitions by a commit that rewrites no file."""
    listed = ", ".join(f"'{day.isoformat()}'" for day in days)
    properties = context.store.commit_properties(context.note())
    with context.store.step("delete-days"):
        context.store.open_to_write("messages").delete(f"inserted_date IN ({listed})", commit_properties=properties)


def _delete_rows(context: PurgeRun, rows: DataFrame, count: int) -> None:
    where = bounds(rows)
    if where is None:
        return
    index = kept_index(context.spark, context.store)
    leaving = rows.select("global_position")
    if count <= _BROADCAST_ROWS:
        leaving = F.broadcast(leaving)
    merge = merging(context.spark, context.store, leaving, where)
    with settings(context.spark, MERGE), committing(context.spark, context.store, "delete-rows", context.note()):
        merge.whenMatchedDelete().execute()
    if index is not None:
        index.left(Leaving(leaving, count))


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
    with committing(spark, store, "purged-ids", table=REMEMBERED):
        rows.coalesce(-(-count // _ROWS_A_FILE)).write.format("delta").mode("append").save(store.path(REMEMBERED))
    write_plan(context, plan.model_copy(update={"remembered": True}))


def _leaving(context: PurgeRun, plan: Plan) -> DataFrame:
    """The messages that are purged and not erased: column message_id."""
    ids = messages_of(context, written_rows(context, plan).where(~F.col("erase"))).select("message_id")
    if not plan.days:
        return ids
    days = read_messages(context.spark, context.store, plan.version_before)
    return ids.union(days.where(F.col("inserted_date").isin(*plan.days)).select("message_id"))
