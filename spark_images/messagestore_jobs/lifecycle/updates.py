"""Read status updates from records, and make dead letters of records that are none."""

from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.bounds import LONGEST_ERROR, MOST_ATTEMPTS
from messagestore_core.contract.records import TimeUnit
from messagestore_core.reasons import DeadLetterReason as Reason
from messagestore_core.store.dead_letters import (
    NAME_COLUMNS,
    new_dead_letters,
    set_aside_before,
    set_aside_new,
    source_column,
)
from messagestore_core.store.fence import HeldStore
from messagestore_jobs.lifecycle.transitions import UPDATES
from messagestore_jobs.source.columns import (
    Projections,
    json_envelope,
    no_time,
    time_of,
    whole_number,
    with_projections,
)

KIND = "lifecycle"
"""The kind of an update's source in tables."""
_TEXTS = {"message_id": "messageId", "status": "status", "error": "error", "time": "time"}
_NARROW = ("part", "row", "kind", "uri", "partition", "offset", "raw", "cut")
_FIELDS = ("message_id", "status", "result", "error", "time", "attempt", "reason", "detail")


def read_updates(records: DataFrame, time_unit: TimeUnit | None) -> DataFrame:
    """The records of ``read_planned`` as updates, or with the reason why they are none.

    Columns: part, row, kind, uri, partition, offset, raw binary (the record), cut; message_id, status, result binary,
    error, time timestamp, attempt long; reason and detail string, null where the record is an update.
    """
    validated = with_projections(records.where("row >= 0"), _columns(time_unit))
    return validated.drop("time").withColumnRenamed("own_time", "time").select(*_NARROW, *_FIELDS)


def source_of(records: pa.Table) -> pa.StructArray:
    """The sources of updates, from columns uri, partition and offset, with a kind of their own."""
    places = records.select(["uri", "partition", "offset"])
    return source_column(places.append_column("kind", pa.array([KIND] * len(places), pa.string())))


def to_dead_letters(rows: pa.Table, source: pa.Array, at: datetime, batch: str) -> pa.Table:
    """Rows of DEAD_LETTERS, of columns raw, reason and detail, and cut and NAME_COLUMNS where they are known."""
    known = set(rows.column_names)
    given = {name: rows[name] for name in ("raw", "reason", "detail", *NAME_COLUMNS) if name in known}
    given["cut"] = rows["cut"] if "cut" in known else pa.repeat(pa.scalar(False), rows.num_rows)
    return new_dead_letters({**given, "source": source}, at, batch)


def set_aside_once(store: HeldStore, dead_letters: pa.Table, batch: str, read_before: set[str]) -> int:
    """Write new dead letters of a batch, which an earlier try may have set aside; return how many are its own.

    ``read_before`` are source URIs that may have dead letters already.
    """
    if not dead_letters.num_rows:
        return 0
    by = set_aside_new(store, dead_letters, set_aside_before(store, read_before))
    return sum(one is None or one == batch for one in by)


def _columns(time_unit: TimeUnit | None) -> Projections:
    spec = {
        "paths": {name: [name] for name in (*_TEXTS.values(), "result")},
        "contentType": "application/json",
        "restAsHeaders": False,
        "known": [],
    }
    record = json_envelope(spec, tuple(_TEXTS.values()))
    attempt = F.call_function("messagestore.json_text", F.col("value"), F.lit("$.attempt"))
    return (
        (record.alias("record"), attempt.alias("attempt_text"), F.col("value").alias("raw")),
        (
            *(F.col(f"record.{wire}").alias(name) for name, wire in _TEXTS.items()),
            F.col("record.result").alias("result"),
        ),
        (
            F.when(F.col("time").isNotNull(), time_of(F.col("time"), time_unit)).alias("own_time"),
            whole_number(F.col("attempt_text")).alias("attempt"),
        ),
        (_first(0, time_unit).alias("reason"), _first(1, time_unit).alias("detail")),
    )


def _first(part: int, time_unit: TimeUnit | None) -> Column:
    """Reason (0) or detail (1) of the first violation; null without one."""
    none = F.lit(None).cast("string")
    return reduce(lambda rest, v: F.when(v[0], v[1][part]).otherwise(rest), reversed(_violations(time_unit)), none)


def _violations(time_unit: TimeUnit | None) -> list[tuple[Column, tuple[Column, Column]]]:
    unparseable = F.lit(str(Reason.UNPARSEABLE))
    record_reason = F.col("record.reason")
    return [
        (F.col("size").isNotNull(), (F.lit(str(Reason.RECORD_TOO_LARGE)), F.col("fault"))),
        (F.col("fault").isNotNull() & F.col("fault_reason").isNull(), (unparseable, F.col("fault"))),
        (record_reason == unparseable, (record_reason, F.col("record.detail"))),
        (F.col("fault_reason").isNotNull(), (F.col("fault_reason"), F.col("fault"))),
        (record_reason.isNotNull(), (record_reason, F.col("record.detail"))),
        (F.col("message_id").isNull(), _said(Reason.MISSING_FIELD, "messageId is absent or null")),
        (F.col("status").isNull(), _said(Reason.MISSING_FIELD, "status is absent or null")),
        *((condition, _said(Reason.INVALID_FIELD, words)) for condition, words in _invalid(time_unit)),
    ]


def _said(reason: Reason, words: str) -> tuple[Column, Column]:
    return F.lit(str(reason)), F.lit(f"of a status update, {words}")


def _invalid(time_unit: TimeUnit | None) -> list[tuple[Column, str]]:
    in_range = F.coalesce(F.col("attempt").between(1, MOST_ATTEMPTS), F.lit(False))
    given = F.col("attempt_text").isNotNull() & (F.col("attempt_text") != "null")
    return [
        (F.col("message_id") == "", "messageId is empty"),
        (~F.col("status").isin(*UPDATES), f"status is none of {', '.join(UPDATES)}"),
        (F.col("time").isNotNull() & F.col("own_time").isNull(), f"time {no_time(time_unit)}"),
        (given & ~in_range, f"attempt is no whole number from 1 to {MOST_ATTEMPTS}"),
        (F.length("error") > LONGEST_ERROR, f"error is longer than {LONGEST_ERROR} characters"),
    ]
