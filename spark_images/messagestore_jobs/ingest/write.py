"""The rows of ``messages`` that a batch adds."""

from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import IngestTask, Retry
from messagestore_core.contract.records import KafkaSource
from messagestore_core.envelope import COLUMNS, RECORD
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_core.store.schemas import SOURCE
from messagestore_jobs.ingest.assign import Assignment
from messagestore_jobs.ingest.envelope import can_carry, name_columns
from messagestore_jobs.integrity import key_of, own_columns, seal
from messagestore_jobs.lifecycle.transitions import wait
from messagestore_jobs.native import rfc3339
from messagestore_jobs.rows.claim_checks import claim_check_uri
from messagestore_jobs.source.arrivals import REPLACED
from messagestore_jobs.source.columns import Projections

Numbers = npt.NDArray[np.int64]

_CLOCK = "messagestore_clock"
_FIRST_DEAD_LETTER = -2
"""The position of dead letters in the first portion; further portions count down."""
_ASSIGNMENT = "messagestore_assignment"


def clock() -> Column:
    """The batch's clock. A literal would be part of the generated code, which each batch would then compile again."""
    return F.expr(f"get((select at from {_CLOCK}), 0)")


def set_clock(spark: SparkSession, at: datetime) -> None:
    """Set the value of ``clock``."""
    row = pa.table({"at": pa.array([[at]], pa.list_(pa.timestamp("us", tz="UTC")))})
    spark.createDataFrame(row).createOrReplaceTempView(_CLOCK)


def identity() -> Column:
    """A hash of all that a record's position depends on, to recognize the record that was judged."""
    return F.xxhash64("message_id", "stream_name")


def set_assignment(spark: SparkSession, part_sizes: Numbers, identities: Numbers, assigned: Assignment) -> None:
    """Set the values of ``assignment_columns``.

    Each is an array that one column mentions once, as each mention is sent with each task. Global positions count from
    the batch's first, to make them half as long. Positions are those of ``with_dead_letters``.
    """
    first = assigned.next_global - int(assigned.stored.sum())
    arrays = {
        "starts": np.cumsum(part_sizes) - part_sizes,
        "sizes": part_sizes,
        "positions": _narrowest(assigned.position),
        "first": np.array([first]),
        "later": (assigned.global_position - first).astype(np.int32),
        "identities": identities,
    }
    row = {name: pa.ListArray.from_arrays([0, len(values)], pa.array(values)) for name, values in arrays.items()}
    spark.createDataFrame(pa.table(row)).createOrReplaceTempView(_ASSIGNMENT)


def _narrowest(numbers: Numbers) -> npt.NDArray[np.integer]:
    return numbers.astype(np.int32) if numbers.max(initial=0) <= np.iinfo(np.int32).max else numbers


def assignment_columns() -> Projections:
    """Columns position (below 0 if not stored), global_position and judged_as, from a record's part and row.

    A record's index in the arrays is its part's start plus its row, without join or shuffle. The last row of a part
    must have the number of records that were judged.
    """

    def at(array: str, index: str) -> str:
        return f"get((select {array} from {_ASSIGNMENT}), {index})"

    position = F.when(F.col("row") >= 0, F.expr(at("positions", "place")).cast("bigint"))
    whole = F.expr(f"row = -1 - {at('sizes', 'part')}")
    return (
        (F.expr(f"int({at('starts', 'part')} + row)").alias("place"),),
        (
            position.when(whole, -1).otherwise(_replaced().cast("bigint")).alias("position"),
            F.expr(f"{at('first', '0')} + {at('later', 'place')}").alias("global_position"),
            F.expr(at("identities", "place")).alias("judged_as"),
        ),
    )


def _replaced() -> Column:
    return F.raise_error(F.concat_ws(" ", F.lit(f"{REPLACED}, as seen at"), "uri"))


def row_columns(task: IngestTask, folder: str, suffix: str) -> tuple[Column, ...]:
    """The columns of ``messages``, for records with an assignment; ``suffix`` ends the names of claim checks.

    Columns that are null in all records are left out: readers read columns that a file lacks as nulls, and writing
    nulls takes a twelfth of the time if most columns are empty.

    Raises (in Spark) if a record is not the one that was judged, as a file was replaced.
    """
    at, has_claim_check, status = clock(), _has_claim_check(task), _status(task)
    columns = {
        "message_id": F.when(identity() == F.col("judged_as"), F.col("message_id")).otherwise(
            _replaced().cast("string")
        ),
        "inserted_at": at,
        "inserted_date": at.cast("date"),
        "updated_at": F.lit(None),
        "scrubbed_at": F.lit(None),
        "status": status,
        "retries": F.when(status == "FAILED", 1).otherwise(0),
        "next_retry_at": F.when(status == "FAILED", at + F.expr(_first_retry(task.retry))),
        "payload_uri": F.when(has_claim_check, claim_check_uri(folder, _claim_check_name(suffix))),
        "payload": F.when(~has_claim_check, F.col("payload")),
    }
    record = _record() if _keeps_record(task) else F.lit(None)
    columns["record"] = record.cast(RECORD)
    if task.integrity is not None:
        own = {**own_columns(), "inserted_at": at, "record": columns["record"]}
        columns["hmac"] = seal(key_of(task.integrity), own)
    absent = _absent(task)
    types = {field.column: field.type for field in COLUMNS if field.column not in absent}
    return tuple(columns.get(name, F.col(name)).cast(kind).alias(name) for name, kind in types.items())


def _absent(task: IngestTask) -> set[str]:
    omitted = [field for field in COLUMNS if field.omitted]
    absent = {field.column for field in omitted if not can_carry(task.envelope, task.source.format, field.name)}
    if _keeps_record(task):
        absent.remove("record")
    if task.integrity is None:
        absent.add("hmac")
    if task.claim_check_bytes is None:
        absent.add("payload_uri")
    return absent


def _keeps_record(task: IngestTask) -> bool:
    return isinstance(task.source, KafkaSource) and task.source.keep_record


def _record() -> Column:
    """The record as it came; its value once, if it is the payload."""
    is_payload, kept = F.col("value").eqNullSafe(F.col("payload")), F.col("kept")
    return F.struct(
        F.col("key"),
        F.when(~is_payload, F.col("value")).alias("value"),
        is_payload.alias("value_is_payload"),
        *(kept[name].alias(name) for name in ("headers", "timestamp", "timestamp_type")),
    )


def with_dead_letters(positions: Numbers, unfit: Numbers, portion: Numbers) -> Numbers:
    """The positions, where those of dead letters (rows ``unfit``) encode their portion."""
    with_refused = positions.copy()
    with_refused[unfit] = _FIRST_DEAD_LETTER - portion
    return with_refused


def dead_letters_of(portion: int) -> Column:
    """Whether a record with an assignment is a dead letter of a portion."""
    return F.col("position") == _FIRST_DEAD_LETTER - portion


def dead_letter_columns(*, says: bool) -> tuple[Column, ...]:
    """Columns raw, reason, detail, cut, those of SOURCE and NAME_COLUMNS, and with ``says`` record_says.

    They are of judged records; reason and detail are null if the driver refused the record.
    """
    expired = F.when(F.col("expired"), F.lit(str(DeadLetterReason.EXPIRED_ON_ARRIVAL)))
    when = F.concat(F.lit("it had expired at "), rfc3339(F.col("expires_at")))
    words = F.concat(when, F.lit(", before it arrived at "), rfc3339(clock()))
    return (
        F.col("value").alias("raw"),
        F.coalesce("reason", expired).alias("reason"),
        F.coalesce("detail", F.when(F.col("expired"), words)).alias("detail"),
        *map(F.col, SOURCE.names),
        *(column.alias(name) for name, column in zip(NAME_COLUMNS, name_columns(), strict=True)),
        F.col("cut"),
        *([F.col("record_says")] if says else []),
    )


def unchanged_value() -> Column:
    """Column value of a record with an assignment. Raises (in Spark) if the record is not the one that was judged."""
    return F.when(identity() == F.col("judged_as"), F.col("value")).otherwise(_replaced().cast("binary"))


def claim_check_payloads(stored: DataFrame, task: IngestTask, folder: str, suffix: str) -> DataFrame:
    """The payloads that become claim checks of the table folder: uri string, payload binary."""
    return stored.where(_has_claim_check(task)).select(
        claim_check_uri(folder, _claim_check_name(suffix)).alias("uri"), "payload"
    )


def _claim_check_name(suffix: str) -> Column:
    """The name of a claim check, one per message and run: if two runs give a position, only one commits its row."""
    return F.concat(F.lpad(F.col("global_position").cast("string"), 20, "0"), F.lit(f"-{suffix}"))


def _has_claim_check(task: IngestTask) -> Column:
    if task.claim_check_bytes is None:
        return F.lit(False)
    return F.coalesce(F.col("payload_size") > task.claim_check_bytes, F.lit(False))


def _status(task: IngestTask) -> Column:
    """The record's status; EXPIRED for an expired record that is stored, unless its status is terminal."""
    if task.on_arrival_expired != "Store":
        return F.col("status")
    due = F.col("expired") & F.col("status").isin("RECEIVED", "PROCESSING")
    return F.when(due, "EXPIRED").otherwise(F.col("status"))


def _first_retry(retry: Retry) -> str:
    seconds = wait(retry, 1).total_seconds()
    return f"make_dt_interval(0, 0, 0, {seconds:.6f})" if retry.max_retries >= 1 else "null"
