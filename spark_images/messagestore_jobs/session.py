"""The Spark session that every job runs in."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

JARS = "MESSAGESTORE_JARS"

_NOT_FOR_DATA = 640 << 20
"""What a driver's pod holds beside heap and data: the JVM's code and classes, and Python with its libraries."""
_LEAST_FOR_DATA = 64 << 20
"""Where a pod was given too little, a run goes on with this, and may be ended for it."""
_SHARE_OF_MACHINE = 2
"""A local run leaves the rest to others."""

JAVA_OPTIONS = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""Generated code over many columns is one large method; by default the JVM would only interpret it."""

LITTLE_JAVA_OPTIONS = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"
LITTLE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Where there is little data, compiling plans and optimizing methods takes longer than it saves."""

UNREPEATED = ("message_id", "payload", "payload_sha256", "global_position", "source.offset")

PARSING = {
    # By default ${name} in a text, inside quotes too, becomes a setting or a variable of the environment.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.interval.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
}
"""How Spark reads literals and names: whoever starts a session, SQL means what it meant when it was written."""

PORTS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    # The default cipher doesn't tell when somebody on the way has changed what is sent.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.ui.enabled": "false",
}
"""Whoever comes to a port of driver or executor proves to have the run's secret, which Spark makes anew each time."""

SETTINGS = {
    **PARSING,
    **PORTS,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.messagestore": "dev.messagestore.spark.FunctionCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A value that can't be computed is null, and the record is judged by that: one bad record must not end a batch.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.compression.codec": "zstd",
    # By default Spark writes INT96, which other readers take for nanoseconds: they then hold no time after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Values that never come twice, so no dictionary is tried for them.
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in UNREPEATED},
    # A column of many values soon goes without one, and not after most of a group of rows has been looked up in it.
    "spark.hadoop.parquet.dictionary.page.size": "65536",
    # Nothing reads these statistics, and zstd's lowest level costs a third less for a few per cent more.
    "spark.hadoop.parquet.column.statistics.enabled#payload": "false",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    # Readers that know no pages pass over whole groups of rows.
    "spark.hadoop.parquet.block.row.count.limit": "65536",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Partitioned by day, a batch writes one folder: no sort for it.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A paused replay and a purge that was cut off read a version however old it is; what they need is kept for them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # Commits are created by the store itself where there is none yet; Delta's own log store for S3 would overwrite.
    "spark.delta.logStore.s3a.impl": "dev.messagestore.spark.ConditionalLogStore",
    # Of a log, what comes after the last checkpoint is listed, and not all of it each time.
    "spark.hadoop.delta.enableFastS3AListFrom": "true",
    # A table's files are what its commits and check points say: nothing else that lies in a log is believed of them.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.databricks.delta.deltaLog.minorCompaction.useForReads": "false",
    # Secrets are no settings: each bucket's settings name the variables that hold them.
    "spark.hadoop.fs.s3a.aws.credentials.provider": "dev.messagestore.spark.BucketCredentials",
    # No checksum files beside local tables.
    "spark.hadoop.fs.file.impl": "dev.messagestore.spark.PlainLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.ui.showConsoleProgress": "false",
    # Or each operator of a column asks the JVM four times where in Python it stands: half of what a small batch takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


DISKS = {"spark.io.encryption.enabled": "true"}
"""What a pod spills lies on the disk of a node that others use too; a local run has no others."""

DEFAULTS = {"spark.driver.maxResultSize": "0"}
"""What a run may be given another value for."""


def jars_folder() -> Path:
    """Where the jars are: named by the environment (an image does), else beside this Python."""
    return Path(os.environ.get(JARS) or Path(sys.prefix) / "share" / "messagestore" / "jars")


def local_session(
    cores: int = 2, memory: str = "2g", settings: dict[str, str] | None = None, *, little: bool = False
) -> SparkSession:
    """A session in this process's own JVM.

    Args:
        cores: that Spark works on.
        memory: of the JVM.
        settings: of Spark, beside ours.
        little: whether it is for some megabytes of data: it then starts in about half the time.

    Raises:
        FileNotFoundError: the jars have not been installed.
    """
    jars = sorted(str(jar) for jar in jars_folder().glob("*.jar"))
    if not jars:
        raise FileNotFoundError(f"no jars in {jars_folder()}: run `make install`, or set {JARS}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("messagestore")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraClassPath", os.pathsep.join(jars))
        .config("spark.driver.extraJavaOptions", LITTLE_JAVA_OPTIONS if little else JAVA_OPTIONS)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.default.parallelism", str(cores))
    )
    for name, value in {**DEFAULTS, **SETTINGS, **(LITTLE if little else {}), **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def cluster_session() -> SparkSession:
    """The session of a driver in a cluster: master, sizes and addresses are what Spark was submitted with.

    Our settings hold, whatever was submitted. Where this process starts the JVM itself, that gets our options too.
    """
    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    # What was submitted is known to the JVM alone.
    SparkContext._ensure_initialized()
    submitted = SparkConf()
    builder = SparkSession.builder.config("spark.executorEnv.JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    ours = {**SETTINGS, **DISKS}
    for name, value in {**DEFAULTS, **ours}.items():
        if name in ours or not submitted.contains(name):
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def python_bytes(spark: SparkSession) -> int:
    """What this Python process may hold of data, beside the JVM and what both need themselves.

    The JVM knows the bound of its container, whatever keeps it there. A machine without one is shared with others.
    """
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    system = jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
    # By the interface, as the bean's own class is not open to others.
    public = jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
    total = public.getMethod("getTotalMemorySize", gateway.new_array(jvm.java.lang.Class, 0))
    container = int(total.invoke(system, gateway.new_array(jvm.java.lang.Object, 0)))
    return left_for_data(container, int(jvm.java.lang.Runtime.getRuntime().maxMemory()), shared=_is_local(spark))


def left_for_data(container: int, heap: int, *, shared: bool) -> int:
    """What is left to Python's data of a container, or of a machine that is shared with others; all in bytes."""
    left = container - heap - _NOT_FOR_DATA
    return max(_LEAST_FOR_DATA, left // _SHARE_OF_MACHINE if shared else left)


def heap_bytes(spark: SparkSession) -> int:
    """What a Java process of the run may hold, be it the driver or an executor: the smaller."""
    jvm = spark._jvm
    own = int(jvm.java.lang.Runtime.getRuntime().maxMemory())  # type: ignore[union-attr]
    if _is_local(spark):
        return own
    asked = jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(  # type: ignore[union-attr]
        spark.conf.get("spark.executor.memory", "1g")
    )
    return min(own, int(asked))


def cores_of_heap(spark: SparkSession) -> int:
    """How many tasks share it."""
    if _is_local(spark):
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.executor.cores", "1") or 1)


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Session settings for one block."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)
