"""A batch as it was written down, of files or of Kafka's records, as a DataFrame of records."""

import json
import re
from collections.abc import Sequence
from itertools import repeat
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.records import FilesSource, KafkaSource, RecordsSource
from messagestore_core.contract.run_document import IngestTask
from messagestore_core.store.files import Batch, Range
from messagestore_core.store.offsets import OffsetBatch, OffsetRange
from messagestore_jobs.session import cores_of_heap, heap_bytes
from messagestore_jobs.source.kafka_envelope import said_before
from messagestore_jobs.source.kafka_listing import access
from messagestore_jobs.source.plan import part_bytes, parts_of_files, parts_of_offsets

_SLASHES = re.compile("^file:/+")
_MAX_RECORD_BYTES = 256 << 20
_SHARE_OF_HEAP = 16
"""A record is held several times while it is judged and written: its line, its fields, a row, a page of a file."""

_LEAST_PART = 5_000
_LARGEST_PART = 100_000
"""Records of Kafka that one task reads."""

Planned = Batch | OffsetBatch
"""A batch of files, or of Kafka's records."""


def splittable(source: FilesSource | RecordsSource) -> bool:
    """Whether a file can be read in parts: lines can."""
    return source.kind == "files" and source.format != "JSON"


def too_many_bytes(spark: SparkSession) -> int:
    """How long a record has to be to be set aside unread: so that each core can hold one, whoever sends it."""
    return max(1, min(_MAX_RECORD_BYTES, heap_bytes(spark) // (_SHARE_OF_HEAP * cores_of_heap(spark))))


def read_records(
    spark: SparkSession, parts: Sequence[Sequence[Range]], source: FilesSource | RecordsSource
) -> DataFrame:
    """The records of planned ranges.

    Columns: part int, row int (the place in the plan), kind and uri string, partition int, offset long (where the
    record comes from), value binary, fault string (why it can't be whole, or null), size long (of a record that is too
    large, of which value is the start; else null). A row below 0 is no record: it ends a part of files, and is -1 less
    the number of records in it.
    """
    return _from_files(spark, parts, source) if source.kind == "files" else _set_aside(spark, parts)


def _from_files(
    spark: SparkSession, parts: Sequence[Sequence[Range]], source: FilesSource | RecordsSource
) -> DataFrame:
    plan = {
        "format": "Documents" if source.format == "JSON" else "Lines",
        "maxRecordBytes": too_many_bytes(spark),
        "parts": [
            [{"uri": r.file.uri, "start": r.start, "end": r.end, "size": r.file.size} for r in part] for part in parts
        ],
    }
    records = spark.read.format("dev.messagestore.spark.RecordSource").option("plan", json.dumps(plan)).load()
    return records.select("*", F.lit("files").alias("kind"), F.lit(None).cast("int").alias("partition"))


def _set_aside(spark: SparkSession, parts: Sequence[Sequence[Range]]) -> DataFrame:
    """One part a file; Spark reads them in an order of its own, so that part and row must tell the plan's."""
    files = [r.file.uri for part in parts for r in part]
    rows = spark.read.parquet(*files)
    # An earlier release may have staged them, and said nothing of it.
    fault = F.col("fault") if "fault" in rows.columns else F.lit(None).cast("string").alias("fault")
    return rows.select(
        (
            F.array_position(
                F.array(*map(F.lit, _paths(files))), F.regexp_replace("_metadata.file_path", _SLASHES.pattern, "file:/")
            )
            - 1
        )
        .cast("int")
        .alias("part"),
        F.col("_metadata.row_index").cast("int").alias("row"),
        "kind",
        "uri",
        F.col("partition").cast("int").alias("partition"),
        "offset",
        "value",
        fault,
        F.when(fault.isNotNull(), F.coalesce(F.octet_length("value"), F.lit(0)).cast("bigint")).alias("size"),
        *said_before(F.col("headers")),
    )


def _paths(files: Sequence[str]) -> list[str]:
    """As Spark's metadata names them, but for the slashes that a local URI begins with."""
    return [quote(f, safe=":/") if f.startswith("file:") else f for f in map(_SLASHES.sub, repeat("file:/"), files)]


def read_kafka(spark: SparkSession, source: KafkaSource, batch: OffsetBatch, cores: int) -> tuple[DataFrame, int]:
    """The batch's records, as ``read_planned`` has them, and in how many parts they come."""
    total = sum(r.end - r.start for r in batch.ranges if r.lost is None)
    planned = parts_of_offsets(batch.ranges, max(_LEAST_PART, min(_LARGEST_PART, -(-total // cores))))
    plan = {
        "access": access(source.cluster),
        "maxRecordBytes": too_many_bytes(spark),
        "parts": [[_range(r) for r in part] for part in planned],
    }
    records = spark.read.format("dev.messagestore.spark.KafkaRecordSource").option("plan", json.dumps(plan)).load()
    return records.select("*", F.lit("kafka").alias("kind")), len(planned)


def _range(r: OffsetRange) -> dict[str, object]:
    return {"topic": r.partition.topic, "partition": r.partition.number, "start": r.start, "end": r.end}


def read_planned(spark: SparkSession, task: IngestTask, batch: Planned) -> tuple[DataFrame, int]:
    """The batch's records, as ``read_records`` has them, and in how many parts they come.

    Of Kafka they also have key binary, record_headers map, record_time timestamp, and a value may be null.
    """
    source, cores = task.source, spark.sparkContext.defaultParallelism
    if isinstance(batch, OffsetBatch):
        assert isinstance(source, KafkaSource)
        return read_kafka(spark, source, batch, cores)
    assert not isinstance(source, KafkaSource)
    if source.kind == "records":
        return read_records(spark, [[r] for r in batch.ranges], source), len(batch.ranges)
    target = part_bytes(sum(r.end - r.start for r in batch.ranges), cores)
    planned = parts_of_files(batch.ranges, target, splittable=splittable(source))
    return read_records(spark, planned, source), len(planned)
