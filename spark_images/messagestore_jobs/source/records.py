"""Read the records of a planned batch, of files or of Kafka, as a DataFrame."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource, KafkaSource, RecordsSource
from messagestore_core.store.files import Batch, Range
from messagestore_core.store.offsets import URI, OffsetBatch, OffsetRange
from messagestore_jobs.session import cores_of_heap, extension, heap_bytes, python_bytes
from messagestore_jobs.source.file_envelope import about, about_before, names_of, paths_of
from messagestore_jobs.source.kafka_envelope import said_before
from messagestore_jobs.source.kafka_listing import access
from messagestore_jobs.source.plan import (
    cut_between_records,
    cut_by_bytes,
    held_at_once,
    most_records,
    part_bytes,
    parts_of_files,
    parts_of_offsets,
    without_windows,
)

_SLASHES = re.compile("^file:/+")
_MAX_RECORD_BYTES = 256 << 20
_SHARE_OF_HEAP = 16
"""A task holds a record several times: its line, its fields, a row, a page of a file."""

_NOT_IN_VERDICTS = {
    *("kind", "source_id", "source", "lifecycle", "translators", "integrity", "sequence_timeout", "holds"),
    *("compression", "memory", "messages_per_second", "batch_interval"),
}
"""The fields of a task by which no record is judged; of its source, those below are."""
_IN_VERDICTS = {"kind", "format", "records_path", "of_kafka", "topics", "topic_pattern"}
_RULES = 3
"""Raised by a release that judges records otherwise than the one before."""

_LEAST_PART = 5_000
_LARGEST_PART = 100_000
"""The least and the most Kafka records for one task."""

_PORTION_SHARE_OF_HEAP = 32
"""The driver holds a portion several times: as it came, as rows, as a file."""

TOO_MANY = "more records than a batch holds"
"""The text in Spark's error if a file has more records than ``read_planned`` may read of it."""

_NOT_CUT, _NO_END = -1, (1 << 63) - 1

Planned = Batch | OffsetBatch
"""A planned batch, of files or of Kafka records."""


def splittable(source: FilesSource | RecordsSource) -> bool:
    """Whether a file can be read in parts, as files of lines can."""
    return source.kind == "files" and source.format != "JSON"


def identified_by_position(task: IngestTask) -> bool:
    """Whether records of files are identified by their places, as lines of text without an id are."""
    source, message_id = task.source, task.envelope.fields.get("messageId")
    if source.kind != "files" or task.envelope.format != "Custom":
        return False
    if message_id is None:
        return source.format == "Text"
    return message_id.file == "Place" and message_id.pattern is None


def too_many_bytes(spark: SparkSession) -> int:
    """The size from which a record becomes a dead letter unread, so that each core can hold one record."""
    return max(1, min(_MAX_RECORD_BYTES, heap_bytes(spark) // (_SHARE_OF_HEAP * cores_of_heap(spark))))


def verdict_digest(spark: SparkSession, task: IngestTask) -> str:
    """A digest of all that verdicts depend on besides the records and the store."""
    said = task.model_dump(mode="json", exclude=_NOT_IN_VERDICTS)
    said["source"] = task.source.model_dump(mode="json", include=_IN_VERDICTS)
    if task.lifecycle is not None and task.lifecycle.time_unit is not None:
        said["time_unit"] = task.lifecycle.time_unit
    text = json.dumps([_RULES, too_many_bytes(spark), said], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def held_records(spark: SparkSession, task: IngestTask, ranges: Sequence[Range]) -> int:
    """How many records of a file a driver can hold that can't be cut by its bytes."""
    held = held_beside_windows(spark, task, ranges)
    return most_records(None, task.memory.batch_records, None, heap_bytes(spark), held)


def held_beside_windows(spark: SparkSession, task: IngestTask, ranges: Sequence[Range]) -> int:
    """How many records of a batch Python can hold beside what it takes to unpack these ranges."""
    twice = bool(paths_of(task.envelope.mappings()))
    return held_at_once(without_windows(python_bytes(spark), ranges, twice=twice))


def parts_between_records(
    spark: SparkSession, r: Range, first: int, source: FilesSource, records: int, unpacked_bytes: int
) -> list[Range]:
    """The rest of a file in parts that are a batch each; it is read to its end.

    Args:
        first: where its records begin, in bytes of what the file unpacks to.
        records: how many a part may have.
        unpacked_bytes: how many a part may have, unless it has one record.

    Raises:
        Py4JJavaError: the file can't be read.
    """
    plan = _plan_of_files(spark, [[replace(r, unpacked_from=first)]], source, 0, frozenset(), {})
    *cuts, end = json.loads(extension(spark).FileCuts.find(plan, records, unpacked_bytes))
    return cut_between_records(r, first, cuts, end)


def _plan_of_files(
    spark: SparkSession,
    parts: Sequence[Sequence[Range]],
    source: FilesSource,
    most: int,
    names: frozenset[str],
    paths: Mapping[str, str],
) -> str:
    def planned(r: Range) -> dict[str, object]:
        takes_all = r.unpacked_from is not None or cut_by_bytes(r, splittable=splittable(source))
        return {
            "uri": r.file.uri,
            "start": r.start,
            "end": r.end,
            "size": r.file.size,
            "source": r.source_uri,
            "about": about(r.file, names, source.uri) if names else None,
            "from": _NOT_CUT if r.unpacked_from is None else r.unpacked_from,
            "to": _NO_END if r.unpacked_to is None else r.unpacked_to,
            "most": _NO_END if takes_all else most,
        }

    plan = {
        "format": "Documents" if source.format == "JSON" else "Lines",
        "maxRecordBytes": too_many_bytes(spark),
        "parts": [[planned(r) for r in part] for part in parts],
        "paths": {"records": source.records_path, "around": dict(paths)},
    }
    return json.dumps(plan)


def _set_aside(spark: SparkSession, parts: Sequence[Sequence[Range]], below: str | None) -> DataFrame:
    """One part per file; Spark reads them in any order, so part and row give each record's place in the plan."""
    files = [r.file.uri for part in parts for r in part]
    rows = spark.read.parquet(*files)
    # Files that an earlier release staged have no such column.
    fault = F.col("fault") if "fault" in rows.columns else F.lit(None).cast("string").alias("fault")
    too_large = F.col("too_large") if "too_large" in rows.columns else fault.isNotNull()
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
        F.when(too_large, F.coalesce(F.octet_length("value"), F.lit(0)).cast("bigint")).alias("size"),
        fault.isNotNull().alias("cut"),
        _no_reason(),
        *said_before(F.col("headers")),
        about_before(F.col("headers"), below).alias("about"),
    )


def _paths(files: Sequence[str]) -> list[str]:
    """The paths as Spark's metadata has them, but for the slashes that a local URI begins with."""
    return [quote(f, safe=":/") if f.startswith("file:") else f for f in map(_SLASHES.sub, repeat("file:/"), files)]


def read_kafka(spark: SparkSession, source: KafkaSource, batch: OffsetBatch, cores: int) -> tuple[DataFrame, int]:
    """The batch's records, see ``read_planned``, and the number of parts."""
    total = sum(r.end - r.start for r in batch.ranges if r.lost is None)
    planned = parts_of_offsets(batch.ranges, max(_LEAST_PART, min(_LARGEST_PART, -(-total // cores))))
    plan = {
        "access": access(source.cluster),
        "maxRecordBytes": too_many_bytes(spark),
        "keep": source.keep_record,
        "parts": [[_range(r) for r in part] for part in planned],
    }
    records = spark.read.format("dev.messagestore.spark.KafkaRecordSource").option("plan", json.dumps(plan)).load()
    cut = F.col("fault").isNotNull().alias("cut")
    return _with_generations(records, batch).select("*", cut, _no_reason(), F.lit("kafka").alias("kind")), len(planned)


def _no_reason() -> Column:
    return F.lit(None).cast("string").alias("fault_reason")


def _with_generations(records: DataFrame, batch: OffsetBatch) -> DataFrame:
    """Records with the URI of their topic's generation; no batch reads two topics of one name."""
    read = {r.partition for r in batch.ranges if r.lost is None and r.partition.topic_id in batch.generations}
    uris = [text for one in sorted(read, key=str) for text in (f"{URI}{one.topic}", batch.uri(one))]
    if not uris:
        return records
    return records.withColumn("uri", F.coalesce(F.create_map(*map(F.lit, uris))[F.col("uri")], "uri"))


def _range(r: OffsetRange) -> dict[str, object]:
    return {"topic": r.partition.topic, "partition": r.partition.number, "start": r.start, "end": r.end}


def read_planned(spark: SparkSession, task: IngestTask, batch: Planned) -> tuple[DataFrame, int]:
    """The batch's records, and the number of parts.

    In column about is what is known of the record's file, and of the document around it, by the names that mappings
    need. Of a file that is taken whole, as it can't be cut by its bytes, it reads as many records as a batch holds.

    Columns: part int, row int (the record's place in the plan), kind and uri string, partition int, offset long (where
    the record comes from), value binary, fault string (why it is not complete, or null), size long (of a record that is
    too large, whose start is in value; else null), cut boolean (whether value lacks bytes of the record), fault_reason
    string (of a fault, if it is another than Unparseable; else null), about map (see above; may be null). A
    row below 0 is no record but the end of a part of files; it is -1 minus the number of records in the part.

    Kafka records also have key binary, record_headers map, record_time timestamp and kept struct (see
    ``KafkaRecordSource``), and their value may be null.
    """
    source, cores = task.source, spark.sparkContext.defaultParallelism
    if isinstance(batch, OffsetBatch):
        assert isinstance(source, KafkaSource)
        return read_kafka(spark, source, batch, cores)
    assert not isinstance(source, KafkaSource)
    if source.kind == "records":
        return _set_aside(spark, [[r] for r in batch.ranges], source.below), len(batch.ranges)
    target = largest_part(spark, batch.ranges)
    planned = parts_of_files(batch.ranges, target, splittable=splittable(source))
    mappings = task.envelope.mappings()
    most = held_records(spark, task, batch.ranges)
    plan = _plan_of_files(spark, planned, source, most, names_of(mappings), paths_of(mappings))
    records = spark.read.format("dev.messagestore.spark.RecordSource").option("plan", plan).load()
    return records.select("*", F.lit("files").alias("kind"), F.lit(None).cast("int").alias("partition")), len(planned)


def largest_part(spark: SparkSession, ranges: Sequence[Range]) -> int:
    """From how many bytes on a file of a batch is read in parts, if it can be cut."""
    return part_bytes(sum(r.end - r.start for r in ranges), spark.sparkContext.defaultParallelism)


def portion_bytes(spark: SparkSession) -> int:
    """The largest size in bytes, without its last record, of a portion of records that become dead letters.

    The driver holds only some of their bytes at a time.
    """
    return max(1, heap_bytes(spark) // _PORTION_SHARE_OF_HEAP)


def portions(sizes: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """The portion of each record (0, 1, … with gaps), by their sizes in order."""
    numbers: npt.NDArray[np.int64] = (np.cumsum(sizes) - sizes) // most
    return numbers
