"""Freezes what a purge takes, and reads it again by Spark: see ``messagestore_core.store.purges``.

``_purges/<preview id>/`` has the frozen rows and, written after them, the plan; also a note of each run that rewrote
claim checks for a scrub. The plan lists days that leave whole; their rows are those of the table's version before. A
folder without a plan is left of a run that broke off before it decided; a folder with one is a purge to continue, or
one that waits for approval.

Somebody else may have removed files of that version. Then the rows of those days are the ones that the current version
still has up to the last position of then; days without any were removed by this purge.
"""

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from messagestore_core.store.delta_log import files_of, of_day
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import PLAN, PURGES
from messagestore_core.store.objects import write_document
from messagestore_core.store.purges import FROZEN, Plan
from messagestore_jobs.context import Run
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_messages, within

_FROZEN_TYPES = from_arrow_schema(FROZEN)


def write_rows(context: Run, plan: Plan, rows: DataFrame) -> None:
    """Freeze rows; they count once the plan is written."""
    with context.store.step("freeze-rows"):
        rows.select(*FROZEN.names).write.mode("overwrite").parquet(context.store.path(plan.rows_folder))


def write_plan(context: Run, plan: Plan) -> None:
    """Write the plan; from now on runs continue the purge until it is done."""
    with context.store.step("freeze-plan"):
        write_document(context.store.objects(), f"{plan.folder}/{PLAN}", plan)


def frozen_rows(context: Run, plan: Plan) -> DataFrame:
    """All rows that leave: columns FROZEN."""
    written = written_rows(context, plan)
    if not plan.days:
        return written
    before = _of_whole_days(read_messages(context.spark, context.store, plan.version_before))
    return written.unionByName(before.where(F.col("inserted_date").isin(*plan.days)))


def written_rows(context: Run, plan: Plan) -> DataFrame:
    """The rows that leave, without those of whole days: columns FROZEN.

    They don't need an earlier version of the table, as those of whole days do.
    """
    if plan.rows:
        return context.spark.read.schema(_FROZEN_TYPES).parquet(context.store.path(plan.rows_folder))
    return context.spark.createDataFrame([], _FROZEN_TYPES)


def messages_of(context: Run, rows: DataFrame, version: int | None = None) -> DataFrame:
    """The messages of frozen rows that the table has, now or at a version."""
    messages = within(read_messages(context.spark, context.store, version), rows)
    return messages.join(rows.select("global_position"), "global_position", "left_semi").select(*messages.columns)


def with_rows_of_days(context: Run, plan: Plan) -> Plan:
    """The plan; if its whole days can't be read as they were, it lists those of their rows that are left, durably.

    A message whose status has changed since the decision stays.

    Raises:
        RunFailedError: nobody can tell which messages the days had.
    """
    if not plan.days or _can_be_read(context.store, plan):
        return plan
    last = _last_position(context.store, plan)
    days = read_messages(context.spark, context.store).where(F.col("inserted_date").isin(*plan.days))
    remaining = _of_whole_days(days.where(F.col("global_position") <= last))
    changed = F.coalesce(F.col("updated_at") >= instant(plan.decided_at), F.lit(False))
    written = written_rows(context, plan)
    of_days, of_others, stay = map(_size, (remaining, written, remaining.where(changed)))
    complete = plan.model_copy(
        update={
            "rows": plan.rows + 1,
            "days": (),
            "messages": plan.messages - stay[0],
            "bytes": plan.bytes - stay[1],
            "removed": plan.messages - of_days[0] - of_others[0],
            "removed_bytes": plan.bytes - of_days[1] - of_others[1],
        }
    )
    write_rows(context, complete, written.unionByName(remaining.where(~changed)))
    write_plan(context, complete)
    return complete


def forget(context: Run, plan: Plan) -> None:
    """Delete a plan that is done or obsolete; plan.json goes first, so that no run continues half of it."""
    objects = context.store.objects()
    with context.store.step("forget-plan"):
        objects.delete(f"{plan.folder}/{PLAN}")
    with context.store.step("forget-rows"):
        objects.delete_folder(plan.folder)


def forget_notes(context: Run, plan: Plan) -> None:
    """Delete the notes of a plan whose run broke off, as its next run writes new ones, and rows that don't count."""
    objects = context.store.objects()
    for name in objects.names(plan.folder):
        if name.endswith("/") and name != f"{plan.rows_folder}/":
            with context.store.step("forget-notes"):
                objects.delete_folder(name.rstrip("/"))


def sweep(context: Run) -> None:
    """Remove folders without a plan, left by runs that broke off before they decided or after they were done."""
    objects = context.store.objects()
    for name in objects.names(PURGES):
        if name.endswith("/") and not objects.exists(f"{name}{PLAN}"):
            with context.store.step("sweep-plan"):
                objects.delete_folder(name.rstrip("/"))


def _of_whole_days(messages: DataFrame) -> DataFrame:
    """Messages as frozen rows; nobody has judged them one by one."""
    columns = {"erase": F.lit(False), "rules": F.lit(None).cast("array<string>")}
    return messages.withColumns(columns).select(*FROZEN.names)


def _size(rows: DataFrame) -> tuple[int, int]:
    """How many messages, and the bytes of their payloads."""
    row = rows.agg(F.count(F.lit(1)), F.coalesce(F.sum("payload_size"), F.lit(0))).collect()[0]
    return row[0], row[1]


def _can_be_read(store: Store, plan: Plan) -> bool:
    """Whether all files of the whole days still exist."""
    files = _files_before(store, plan)
    if files is None:
        return False
    old = {path for day in plan.days for path in of_day(files, day)["path"].to_pylist()}
    gone = old - set(files_of(store.table("messages"))["path"].to_pylist())
    folders = {path.rpartition("/")[0] for path in gone}
    messages = store.objects("messages")
    return gone <= {name for folder in folders for name in messages.names(folder)}


def _last_position(store: Store, plan: Plan) -> int:
    if plan.last_position is not None:
        return plan.last_position
    files = _files_before(store, plan)
    bounds = None if files is None else files["max.global_position"]
    if bounds is None or bounds.null_count:
        raise RunFailedError(
            "PurgeUnfinished",
            f"a purge by {plan.resource.namespace}/{plan.resource.name} was cut short, and nobody can tell any more "
            f"which messages it was to remove: somebody has removed version {plan.version_before} of "
            f"{store.path('messages')}. Remove {store.path(plan.folder)}: the next run decides anew",
        )
    return int(pc.max(bounds).as_py())


def _files_before(store: Store, plan: Plan) -> pa.Table | None:
    """The files of the version that whole days are of, by the log; None where the log no longer has it."""
    try:
        return files_of(store.table("messages", plan.version_before))
    except DeltaError:
        return None
