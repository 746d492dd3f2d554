"""The rows of ``messages`` that a batch adds."""

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import IngestTask, Retry
from messagestore_jobs.ingest.assign import Assignment
from messagestore_jobs.store.schemas import MESSAGES

Numbers = npt.NDArray[np.int64]

_VIEW = "messagestore_assignment"
CLAIMS = "payloads"


def with_clock(spark: SparkSession, at: datetime) -> Column:
    """The batch's clock as a column. A literal would stand in the generated code and compile it anew each batch."""
    spark.createDataFrame(
        pa.table({"at": pa.array([[at]], pa.list_(pa.timestamp("us", tz="UTC")))})
    ).createOrReplaceTempView("messagestore_clock")
    return F.expr("get((select at from messagestore_clock), 0)")


def with_assignment(
    spark: SparkSession, judged: DataFrame, part_sizes: Numbers, identities: Numbers, assigned: Assignment
) -> DataFrame:
    """The records that are stored, with position and global_position.

    A record's place in the arrays is its part's start and its row in it: no join and no shuffle.

    Raises (in Spark) where a record is not the one that was judged, or a part has more or fewer of them: a file was
    replaced meanwhile.

    Args:
        judged: the records; those of a part are in the order they were judged in.
        part_sizes: the number of records in each part.
        identities: :func:`identity` of each record.
        assigned: what becomes of each record.
    """
    arrays = {
        "starts": np.cumsum(part_sizes) - part_sizes,
        "sizes": part_sizes,
        "positions": assigned.position,
        "globals": assigned.global_position,
        "identities": identities,
    }
    row = pa.table({name: pa.array([values], pa.list_(pa.int64())) for name, values in arrays.items()})
    spark.createDataFrame(row).createOrReplaceTempView(_VIEW)
    changed = F.raise_error(F.concat_ws(" ", F.lit("a file was replaced while it was read:"), "uri"))
    place = F.expr(f"int(get((select starts from {_VIEW}), part) + row)")
    whole = F.expr(f"row = -1 - get((select sizes from {_VIEW}), part)")
    position = F.expr(f"get((select positions from {_VIEW}), place)")
    placed = judged.withColumn("place", place).select(
        "*",
        F.when(F.col("row") >= 0, position).when(whole, -1).otherwise(changed.cast("bigint")).alias("position"),
        F.expr(f"get((select globals from {_VIEW}), place)").alias("global_position"),
    )
    same = identity() == F.expr(f"get((select identities from {_VIEW}), place)")
    return placed.where("position >= 0").withColumn(
        "message_id", F.when(same, F.col("message_id")).otherwise(changed.cast("string"))
    )


def identity() -> Column:
    """What makes a record the one that was judged: a hash of what its position depends on."""
    return F.xxhash64("message_id", "stream_name")


def to_rows(stored: DataFrame, task: IngestTask, at: Column, folder: str) -> DataFrame:
    """Rows in the columns of MESSAGES. ``folder`` is the table folder, for claim checks."""
    claimed = _is_claimed(task)
    status = _status(task)
    failed = status == "FAILED"
    columns = {
        "inserted_at": at,
        "inserted_date": at.cast("date"),
        "updated_at": F.lit(None),
        "scrubbed_at": F.lit(None),
        "status": status,
        "retries": F.when(failed, 1).otherwise(0),
        "next_retry_at": F.when(failed, at + F.expr(_first_retry(task.retry))),
        "payload_uri": F.when(claimed, F.concat(F.lit(f"{folder}/{CLAIMS}/"), claim_name())),
        "payload": F.when(~claimed, F.col("payload")),
    }
    names = {field.name: columns.get(field.name, F.col(field.name)) for field in MESSAGES}
    return stored.select(*(column.cast(_spark_type(name)).alias(name) for name, column in names.items()))


def claimed_payloads(stored: DataFrame, task: IngestTask) -> DataFrame:
    """The payloads that become objects of their own: name string, payload binary."""
    return stored.where(_is_claimed(task)).select(claim_name().alias("name"), "payload")


def claim_name() -> Column:
    """One object a message, named by what is never given twice."""
    return F.lpad(F.col("global_position").cast("string"), 20, "0")


def _is_claimed(task: IngestTask) -> Column:
    if task.claim_check_bytes is None:
        return F.lit(False)
    return F.coalesce(F.col("payload_size") > task.claim_check_bytes, F.lit(False))


def _status(task: IngestTask) -> Column:
    """As the record says; what had expired and is stored nevertheless has expired, unless it had ended."""
    if task.on_arrival_expired != "Store":
        return F.col("status")
    due = F.col("expired") & F.col("status").isin("RECEIVED", "PROCESSING")
    return F.when(due, "EXPIRED").otherwise(F.col("status"))


def _first_retry(retry: Retry) -> str:
    minutes = timedelta(minutes=retry.backoff_base)
    seconds = min(minutes, retry.max_backoff).total_seconds()
    return f"make_dt_interval(0, 0, 0, {seconds:.6f})" if retry.max_retries >= 1 else "null"


_SPARK_TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def _spark_type(name: str) -> str:
    kind = MESSAGES.field(name).type
    if pa.types.is_map(kind):
        return "map<string,string>"
    if pa.types.is_struct(kind):
        return "struct<kind:string,uri:string,partition:int,offset:bigint>"
    return _SPARK_TYPES[kind]
