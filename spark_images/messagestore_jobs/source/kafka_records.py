"""A batch of Kafka's records as a DataFrame."""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import KafkaSource
from messagestore_jobs.source.kafka_listing import access
from messagestore_jobs.source.kafka_plan import parts
from messagestore_jobs.source.records import too_many_bytes
from messagestore_jobs.store.offsets import OffsetBatch, OffsetRange

_LEAST_PART = 5_000
_LARGEST_PART = 100_000


def read_kafka(spark: SparkSession, source: KafkaSource, batch: OffsetBatch, cores: int) -> tuple[DataFrame, int]:
    """The batch's records, as ``read_planned`` has them, and in how many parts they come."""
    total = sum(r.end - r.start for r in batch.ranges if r.lost is None)
    planned = parts(batch.ranges, max(_LEAST_PART, min(_LARGEST_PART, -(-total // cores))))
    plan = {
        "access": access(source.cluster),
        "maxRecordBytes": too_many_bytes(spark),
        "parts": [[_range(r) for r in part] for part in planned],
    }
    records = spark.read.format("dev.messagestore.spark.KafkaRecordSource").option("plan", json.dumps(plan)).load()
    return records.select("*", F.lit("kafka").alias("kind")), len(planned)


def _range(r: OffsetRange) -> dict[str, object]:
    return {"topic": r.partition.topic, "partition": r.partition.number, "start": r.start, "end": r.end}
