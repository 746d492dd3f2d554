"""A batch as it was written down, whatever its source, as records."""

from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.contract.run_document import IngestTask, KafkaSource
from messagestore_jobs.source.kafka_records import read_kafka
from messagestore_jobs.source.plan import part_bytes, partitions
from messagestore_jobs.source.records import read_records, splittable
from messagestore_jobs.store.files import Batch
from messagestore_jobs.store.offsets import OffsetBatch

Planned = Batch | OffsetBatch
"""A batch of files, or of Kafka's records."""


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
    parts = partitions(batch.ranges, target, splittable=splittable(source))
    return read_records(spark, parts, source), len(parts)
