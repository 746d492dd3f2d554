"""The Spark settings that a resource may have, each with the form of its value: none allows free text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BYTES = r"[1-9][0-9]{0,9}([kmgtKMGT][bB]?)?"


@dataclass(frozen=True)
class Form:
    """The form of some settings' values: in words, and as a pattern with one meaning in RE2 and Python."""

    words: str
    pattern: str
    names: tuple[str, ...]

    def fits(self, value: str) -> bool:
        """Whether a value is of this form."""
        return re.fullmatch(self.pattern, value) is not None


FORMS = (
    Form(
        words="true or false",
        pattern="true|false",
        names=(
            "spark.dynamicAllocation.enabled",
            "spark.dynamicAllocation.shuffleTracking.enabled",
            "spark.rdd.compress",
            "spark.shuffle.compress",
            "spark.speculation",
            "spark.sql.adaptive.coalescePartitions.enabled",
            "spark.sql.adaptive.enabled",
            "spark.sql.adaptive.skewJoin.enabled",
        ),
    ),
    Form(
        words="a whole number from 1 to 99",
        pattern="[1-9][0-9]?",
        names=(
            "spark.hadoop.fs.s3a.attempts.maximum",
            "spark.hadoop.fs.s3a.retry.limit",
            "spark.stage.maxConsecutiveAttempts",
            "spark.task.maxFailures",
        ),
    ),
    Form(
        words="a whole number from 0 to 9999",
        pattern="0|[1-9][0-9]{0,3}",
        names=(
            "spark.dynamicAllocation.initialExecutors",
            "spark.dynamicAllocation.maxExecutors",
            "spark.dynamicAllocation.minExecutors",
        ),
    ),
    Form(
        words="a whole number from 1 to 99999",
        pattern="[1-9][0-9]{0,4}",
        names=(
            "spark.default.parallelism",
            "spark.hadoop.fs.s3a.connection.maximum",
            "spark.hadoop.fs.s3a.threads.max",
            "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
            "spark.sql.files.maxPartitionNum",
            "spark.sql.files.minPartitionNum",
            "spark.sql.inMemoryColumnarStorage.batchSize",
            "spark.sql.shuffle.partitions",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        ),
    ),
    Form(
        words="a whole number from 1 to 2047, of MiB",
        pattern="[1-9][0-9]{0,2}|1[0-9]{3}|20[0-3][0-9]|204[0-7]",
        names=("spark.rpc.message.maxSize",),
    ),
    Form(
        words="a whole number of at most 12 digits", pattern="[0-9]{1,12}", names=("spark.sql.files.maxRecordsPerFile",)
    ),
    Form(
        words="a number from 0 to 1, such as 0.75",
        pattern=r"0(\.[0-9]{1,6})?|1(\.0{1,6})?",
        names=("spark.memory.fraction", "spark.memory.storageFraction", "spark.speculation.quantile"),
    ),
    Form(
        words="a number from 0 to 9.9, such as 0.4",
        pattern=r"[0-9](\.[0-9]{1,6})?",
        names=(
            "spark.driver.memoryOverheadFactor",
            "spark.executor.memoryOverheadFactor",
            "spark.speculation.multiplier",
        ),
    ),
    Form(
        words="a time, such as 500ms, 30s or 10min",
        pattern="[0-9]{1,9}(us|ms|s|m|min|h|d)?",
        names=(
            "spark.cleaner.periodicGC.interval",
            "spark.dynamicAllocation.executorIdleTimeout",
            "spark.executor.heartbeatInterval",
            "spark.hadoop.fs.s3a.connection.timeout",
            "spark.hadoop.fs.s3a.retry.interval",
            "spark.locality.wait",
            "spark.network.timeout",
            "spark.speculation.interval",
            "spark.sql.broadcastTimeout",
        ),
    ),
    Form(
        words="a size, such as 512k, 64m or 2g",
        pattern=_BYTES,
        names=(
            "spark.driver.memoryOverhead",
            "spark.executor.memoryOverhead",
            "spark.hadoop.fs.s3a.block.size",
            "spark.hadoop.fs.s3a.multipart.size",
            "spark.reducer.maxSizeInFlight",
            "spark.shuffle.file.buffer",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes",
            "spark.sql.adaptive.coalescePartitions.minPartitionSize",
            "spark.sql.files.maxPartitionBytes",
            "spark.sql.files.openCostInBytes",
        ),
    ),
    Form(
        words="a size, such as 64m, 0 for no bound, or -1 for none at all",
        pattern=f"-1|0|{_BYTES}",
        names=(
            "spark.driver.maxResultSize",
            "spark.sql.adaptive.autoBroadcastJoinThreshold",
            "spark.sql.autoBroadcastJoinThreshold",
        ),
    ),
    Form(words="lz4, lzf, snappy or zstd", pattern="lz4|lzf|snappy|zstd", names=("spark.io.compression.codec",)),
)

ALLOWED_CONF: Mapping[str, Form] = {name: form for form in FORMS for name in form.names}
"""Whole names, no prefixes: with a prefix the next version of Spark could allow new settings."""


def describe_conf() -> str:
    """All allowed settings, by form."""
    return " ".join(f"{form.words[0].upper()}{form.words[1:]}: {', '.join(form.names)}." for form in FORMS)
