"""Writing one chunk: its records, in order, as a few objects in a folder of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter

from messagestore_jobs.replay.cut import Stretch
from messagestore_jobs.replay.order import Order
from messagestore_jobs.store.external import external_write

SHOWN = 10
"""Positions that a report names of those that were not sent."""
Format = Literal["JSONLines", "JSON", "Parquet"]
_FIRST_ROW_MASK = (1 << 33) - 1
_OPTIONS = {
    "compression": "none",
    # What is not sealed is written anew, so a task's output may lie in its place before the job is committed; on
    # object storage that saves a copy.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True)
class Staged:
    """What was written: messages by object number, how many could not be, and the first positions of those."""

    messages: dict[int, int]
    failed: int
    first_failed: tuple[int, ...] = ()


def stage(records: DataFrame, order: Order, stretch: Stretch, form: Format, folder: str, *, sort: bool) -> Staged:
    """Write records (key and ``value``, null where it can't be sent); the object's number is in Spark's file name."""
    if sort or form == "JSON":
        placed, objects = _by_object(records, order, stretch, form), len(stretch.cuts)
    else:
        placed, objects = _as_they_lie(records)
    counted = Observation("replay")
    failed = F.col("value").isNull() & ~F.col("_end")
    rows = placed.observe(
        counted,
        F.count_if(failed).alias("failed"),
        *(F.count_if(F.col("value").isNotNull() & (F.col("_object") == i)).alias(f"n{i}") for i in range(objects)),
    ).where(F.col("value").isNotNull() | F.col("_end"))
    if form == "JSON":
        rows = _as_arrays(rows.sortWithinPartitions("_end", *order.columns))
    elif sort:
        rows = rows.sortWithinPartitions(*order.columns)
    with external_write("replay-staging"):
        _save(rows.drop("_object", "_end", *order.columns), form, folder)
    # Where Spark finds that there are no rows it counts none.
    counts = counted.get
    messages = {i: counts.get(f"n{i}", 0) for i in range(objects)}
    count = counts.get("failed", 0)
    return Staged(messages, count, _first_failed(records, order) if count else ())


def _first_failed(records: DataFrame, order: Order) -> tuple[int, ...]:
    """The lowest global positions, which the key of a message ends with; dead letters have none."""
    if order.parts[-1] != ("global_position", "bigint"):
        return ()
    position = order.columns[-1]
    failed = records.where("value IS NULL").select(position).orderBy(position).limit(SHOWN)
    return tuple(row[0] for row in failed.collect())


def _by_object(records: DataFrame, order: Order, stretch: Stretch, form: Format) -> DataFrame:
    """Each row to its object: the bounds are known, so that nothing is sampled and rows are moved once."""
    objects = len(stretch.cuts)
    number: Column = F.lit(0)
    for cut in stretch.cuts[1:]:
        number = number + order.from_(cut).cast("int")
    rows = records.select("*", number.alias("_object"), F.lit(False).alias("_end"))
    if form == "JSON":
        ids = records.sparkSession.range(objects)
        ends = ids.select(F.col("id").cast("int").alias("_object"), F.lit(True).alias("_end"))
        rows = rows.unionByName(ends, allowMissingColumns=True)
    return rows.repartitionById(objects, "_object")


def _as_they_lie(records: DataFrame) -> tuple[DataFrame, int]:
    """An object for each of Spark's partitions, as the table's files give them."""
    rows = records.select("*", F.spark_partition_id().alias("_object"), F.lit(False).alias("_end"))
    return rows, records.rdd.getNumPartitions()


def _as_arrays(rows: DataFrame) -> DataFrame:
    """Rows of JSON arrays: the first of an object opens one, each other follows a comma, its end closes it."""
    first = F.monotonically_increasing_id().bitwiseAND(_FIRST_ROW_MASK) == 0
    value = (
        F.when(F.col("_end"), F.when(F.col("_first"), "[]").otherwise("]"))
        .when(F.col("_first"), F.concat(F.lit("["), "value"))
        .otherwise(F.concat(F.lit(","), "value"))
    )
    return rows.select("*", first.alias("_first")).select(value.alias("value"))


def _save(rows: DataFrame, form: Format, folder: str) -> None:
    writer = rows.write.mode("overwrite").options(**_OPTIONS)
    save: Callable[[DataFrameWriter, str], None] = DataFrameWriter.parquet if form == "Parquet" else _text
    save(writer, folder)


def _text(writer: DataFrameWriter, folder: str) -> None:
    writer.option("lineSep", "\n").text(folder)
