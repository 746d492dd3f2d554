"""The commits on ``messages`` that change lifecycle columns, each once by the number that it carries."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.lifecycle.fold import Change
from messagestore_jobs.session import settings
from messagestore_jobs.store.delta_log import CommitNote, committed_batch
from messagestore_jobs.store.errors import RunFailedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write, with_epoch
from messagestore_jobs.store.messages import MERGE, Bounds, committing, messages_table
from messagestore_jobs.store.schemas import UTC

CHANGES = pa.schema(
    [
        pa.field("global_position", pa.int64()),
        pa.field("status", pa.string()),
        pa.field("retries", pa.int32()),
        pa.field("next_retry_at", UTC),
        pa.field("updated_at", UTC),
        pa.field("has_outcome", pa.bool_()),
        pa.field("result", pa.binary()),
        pa.field("error", pa.string()),
    ]
)
"""A message whose lifecycle columns change; ``result`` and ``error`` stay unless has_outcome."""
_ONCE = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
_BROADCAST_ROWS = 2_000_000


def commit_changes(
    spark: SparkSession,
    uri: str,
    changes: Mapping[str, Change],
    rows: pa.Table,
    step: tuple[str, int],
    note: CommitNote,
) -> None:
    """Change messages in one commit, also where there is nothing to change; passed over where it has been made.

    Only files that hold one of the messages are written anew.

    Args:
        spark: the session.
        uri: the table folder.
        changes: by message id.
        rows: of the same messages (schema CHANGES).
        step: what the commit ends: an id, and a number that grows.
        note: with the totals after it.
    """
    app_id, number = step
    if committed_batch(uri, app_id) >= number:
        return
    if not changes:
        _commit_nothing(uri, step, note)
        return
    messages = [change.message for change in changes.values()]
    positions = [message.global_position for message in messages]
    days = sorted({message.inserted_date for message in messages})
    source = spark.createDataFrame(rows)
    if rows.num_rows <= _BROADCAST_ROWS:
        source = F.broadcast(source)
    merge_once(spark, uri, source, Bounds(days, min(positions), max(positions)), _set(), step, note)


def merge_once(
    spark: SparkSession,
    uri: str,
    source: DataFrame,
    bounds: Bounds,
    changes: Mapping[str, Column],
    step: tuple[str, int],
    note: CommitNote,
) -> None:
    """Change the messages whose global position is in ``source``, in a commit that carries the step's number.

    Args:
        spark: the session.
        uri: the table folder.
        source: named ``now`` in changes; the messages are ``m``.
        bounds: where the messages lie.
        changes: expressions by column of ``messages``.
        step: what the commit ends, and has not been committed.
        note: with the totals after it.
    """
    app_id, number = step
    same = bounds.condition("m") & (F.col("m.global_position") == F.col("now.global_position"))
    merge = messages_table(spark, uri).alias("m").merge(source.alias("now"), same)
    once = MERGE | dict(zip(_ONCE, (app_id, str(number)), strict=True))
    with settings(spark, once), committing(spark, "lifecycle", with_epoch(uri, note)):
        merge.whenMatchedUpdate(set=dict(changes)).execute()
    if committed_batch(uri, app_id) != number:
        raise RunFailedError("CommitLost", f"step {number} of {app_id} is not in the table after its commit; try again")


def change_rows(changes: Mapping[str, Change], updates: pa.Table, now: datetime) -> pa.Table:
    """The rows of CHANGES; ``updates`` has columns result and error."""
    listed = list(changes.values())
    outcomes = pa.array([change.outcome for change in listed], pa.int64())
    columns = {
        "global_position": [change.message.global_position for change in listed],
        "status": [change.state.status for change in listed],
        "retries": [change.state.retries for change in listed],
        "next_retry_at": [change.state.next_retry_at for change in listed],
        "updated_at": [now] * len(listed),
        "has_outcome": outcomes.is_valid(),
        "result": updates["result"].combine_chunks().take(outcomes),
        "error": updates["error"].combine_chunks().take(outcomes),
    }
    return pa.table([pa.array(columns[f.name], f.type) for f in CHANGES], schema=CHANGES)


def _set() -> dict[str, Column]:
    has_outcome = F.col("now.has_outcome")
    set_ = {name: F.col(f"now.{name}") for name in ("status", "retries", "next_retry_at", "updated_at")}
    for name in ("result", "error"):
        set_[name] = F.when(has_outcome, F.col(f"now.{name}")).otherwise(F.col(f"m.{name}"))
    return set_


def _commit_nothing(uri: str, step: tuple[str, int], note: CommitNote) -> None:
    """A commit that says that a step has been done, and touches no file."""
    table = open_to_write(uri, "messages")
    own = commit_properties(uri, note)
    properties = CommitProperties(
        custom_metadata=own.custom_metadata,
        app_transactions=[*(own.app_transactions or []), Transaction(*step)],
        max_commit_retries=0,
    )
    with external_write("lifecycle"):
        table.create_write_transaction(
            [], "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
        )
