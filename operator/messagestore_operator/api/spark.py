"""The Spark block, the same on all three kinds: how large the pods of a run are, and a few tuning settings."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from messagestore_operator.api.model import Model
from messagestore_operator.api.rules import Rule
from messagestore_operator.api.text import Integer, Value

ALLOWED_CONF = (
    "spark.cleaner.periodicGC.interval",
    "spark.default.parallelism",
    "spark.driver.maxResultSize",
    "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.executorIdleTimeout",
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.dynamicAllocation.shuffleTracking.enabled",
    "spark.executor.heartbeatInterval",
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.hadoop.fs.s3a.attempts.maximum",
    "spark.hadoop.fs.s3a.block.size",
    "spark.hadoop.fs.s3a.connection.maximum",
    "spark.hadoop.fs.s3a.connection.timeout",
    "spark.hadoop.fs.s3a.multipart.size",
    "spark.hadoop.fs.s3a.retry.interval",
    "spark.hadoop.fs.s3a.retry.limit",
    "spark.hadoop.fs.s3a.threads.max",
    "spark.io.compression.codec",
    "spark.locality.wait",
    "spark.memory.fraction",
    "spark.memory.storageFraction",
    "spark.network.timeout",
    "spark.rdd.compress",
    "spark.reducer.maxSizeInFlight",
    "spark.rpc.message.maxSize",
    "spark.shuffle.compress",
    "spark.shuffle.file.buffer",
    "spark.speculation",
    "spark.speculation.interval",
    "spark.speculation.multiplier",
    "spark.speculation.quantile",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.autoBroadcastJoinThreshold",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.skewJoin.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.maxRecordsPerFile",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.inMemoryColumnarStorage.batchSize",
    "spark.sql.shuffle.partitions",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism",
    "spark.stage.maxConsecutiveAttempts",
    "spark.task.maxFailures",
)
"""Whole names, no prefixes: what a name lets in is decided here, not by the next version of Spark."""

Memory = Annotated[str, Field(strict=True, max_length=16, pattern="^[1-9][0-9]{0,6}[kmgtKMGT]$")]


class DriverResources(Model):
    """The size of the driver's pod."""

    cores: Annotated[Integer, Field(ge=1, le=256)] | None = Field(default=None, description="CPU cores of the driver.")
    memory: Memory | None = Field(
        default=None, description="Heap of the driver as Spark writes it, such as 512m or 2g."
    )


class ExecutorResources(Model):
    """The number and the size of the executors' pods."""

    instances: Annotated[Integer, Field(ge=1, le=10000)] | None = Field(
        default=None, description="Number of executors."
    )
    cores: Annotated[Integer, Field(ge=1, le=256)] | None = Field(
        default=None, description="CPU cores of each executor."
    )
    memory: Memory | None = Field(
        default=None, description="Heap of each executor as Spark writes it, such as 512m or 2g."
    )


class Spark(Model):
    """How a run's Spark application is sized; what is absent comes from the operator's own settings."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            message="conf holds a setting that is not allowed: its description lists those that are",
            cel=f"!has(self.conf) || self.conf.all(name, name in [{', '.join(map(repr, ALLOWED_CONF))}])",
            holds=lambda spark: set(spark.conf) <= set(ALLOWED_CONF),
        ),
    )

    image: Annotated[str, Field(strict=True, max_length=512)] | None = Field(
        default=None, description="Image of driver and executors; empty means the operator's own."
    )
    driver: DriverResources | None = Field(default=None, description="Size of the driver.")
    executor: ExecutorResources | None = Field(default=None, description="Number and size of the executors.")
    conf: Annotated[dict[str, Value], Field(max_length=64)] = Field(
        default={},
        description="Spark settings that neither reach credentials nor load code. Allowed are "
        + ", ".join(ALLOWED_CONF)
        + ".",
    )
