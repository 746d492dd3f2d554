"""The Spark session of all jobs: how it is made, reaches buckets, and learns the epochs of stores."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from typing_extensions import override

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage, trusting

JARS = "MESSAGESTORE_JARS"
_SPARK_JARS = Path(pyspark.__file__).with_name("jars")

_NOT_FOR_DATA = 640 << 20
"""Bytes of a driver's pod for neither heap nor data: the JVM's code and classes, and Python with its libraries."""
_LEAST_FOR_DATA = 64 << 20
"""Bytes that a run uses in a pod that is too small, even if the pod may then be killed."""
_SHARE_OF_MACHINE = 2
"""A local run uses one part of so many."""

JAVA_OPTIONS = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""Generated code over many columns is one large method, which the JVM by default interprets."""

_HEAP = "-XX:InitialRAMPercentage=25"
"""By default a heap begins with a 64th of a container's memory, and grows by some twenty garbage collections."""

LITTLE_JAVA_OPTIONS = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"
FOR_LITTLE = {"spark.messagestore.little": "true"}
"""By this a run knows that its session was started for little data."""
FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}
"""With few rows it takes longer to compile plans, plan anew after each stage, and describe plans than it saves."""
LITTLE = FEW_ROWS | FOR_LITTLE

UNREPEATED = ("message_id", "payload", "payload_sha256", "global_position", "source.offset")

TASKS_IN_DRIVER = 2
FEW_TASKS = dict.fromkeys(("spark.sql.shuffle.partitions", "spark.default.parallelism"), str(TASKS_IN_DRIVER))
"""A driver without executors works on so many tasks at once."""
_LOOPBACK = "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1"

_NAMED = (JVMView, JavaPackage, JavaClass)
"""What py4j finds other things of the JVM in, by their names."""

PARSING = {
    # By default ${name} in a text, also within quotes, becomes a setting or an environment variable.
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
"""How Spark reads literals and names, so that SQL has the same meaning in each session."""

PORTS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    # The default cipher doesn't detect changes on the way.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.ui.enabled": "false",
}
"""Clients of a port of driver or executor must prove to have the run's secret, which Spark makes for each run."""

SETTINGS = {
    **PARSING,
    **PORTS,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.messagestore": "dev.messagestore.spark.FunctionCatalog",
    "spark.sql.session.timeZone": "UTC",
    # A value that can't be computed is null, so that one bad record doesn't end a batch.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.compression.codec": "zstd",
    # By default Spark writes INT96. Other readers read that as nanoseconds, which hold no time after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Values that never repeat: no dictionary.
    **{f"spark.hadoop.parquet.enable.dictionary#{column}": "false" for column in UNREPEATED},
    # For a column with many values the writer soon gives the dictionary up.
    "spark.hadoop.parquet.dictionary.page.size": "65536",
    # Nothing reads these statistics. The lowest level of zstd takes a third less time for a few per cent more bytes.
    "spark.hadoop.parquet.column.statistics.enabled#payload": "false",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    # Readers without page indexes skip whole row groups only.
    "spark.hadoop.parquet.block.row.count.limit": "65536",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # A batch writes to one day's partition, so its rows need no sort.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.databricks.delta.snapshotPartitions": "2",
    # A paused replay and a purge that broke off read a version of any age; maintenance keeps what they need.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # This log store creates commits by conditional puts; Delta's own for S3 would overwrite.
    "spark.delta.logStore.s3a.impl": "dev.messagestore.spark.ConditionalLogStore",
    # List only the part of a log after the last checkpoint.
    "spark.hadoop.delta.enableFastS3AListFrom": "true",
    # Only commits and checkpoints say which files a table has; anyone may have written other files to the log.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    "spark.databricks.delta.deltaLog.minorCompaction.useForReads": "false",
    # Secrets are no settings; each bucket's settings name the variables with them.
    "spark.hadoop.fs.s3a.aws.credentials.provider": "dev.messagestore.spark.BucketCredentials",
    # No checksum files beside local tables.
    "spark.hadoop.fs.file.impl": "dev.messagestore.spark.PlainLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.ui.showConsoleProgress": "false",
    # Otherwise each column operator calls the JVM four times for its place in Python: half of a small batch's time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


DISKS = {"spark.io.encryption.enabled": "true"}
"""Pods of others use the same node's disk, so a pod encrypts what it spills; a local run doesn't."""

DEFAULTS = {"spark.driver.maxResultSize": "0"}
"""Settings that a submission may override."""


UTF8 = {"LC_ALL": "C.UTF-8"}
"""The JVM's environment: by another locale, or one that is not installed, it can't read names that are not ASCII."""

_EPOCH, _CLAIMED = "messagestore.epoch.", "messagestore.claimed."


def jars_folder() -> Path:
    """The folder of the jars: as the environment says (in images), else beside this Python."""
    return Path(os.environ.get(JARS) or Path(sys.prefix) / "share" / "messagestore" / "jars")


def class_path() -> list[str]:
    """All jars, in the one order of drivers and executors: an archive of classes is for one order.

    Raises:
        FileNotFoundError: ours have not been installed.
    """
    ours, sparks = (sorted(map(str, folder.glob("*.jar"))) for folder in (jars_folder(), _SPARK_JARS))
    if not ours:
        raise FileNotFoundError(f"no jars in {jars_folder()}: run `make install`, or set {JARS}")
    return [*ours, *sparks]


def classes_archive() -> Path:
    """The archive of classes that ``messagestore_jobs.driver.classes`` makes; it may be absent."""
    return jars_folder().with_name("classes.jsa")


def local_session(
    cores: int = 2,
    memory: str = "2g",
    settings: dict[str, str] | None = None,
    *,
    little: bool = False,
    java_options: str | None = None,
) -> SparkSession:
    """A session in this process's own JVM.

    Args:
        little: whether it is for some megabytes of data: it then starts in about half the time.
        java_options: of the JVM, beside ours; absent: those by which it maps the archive of classes, if there is one.

    Raises:
        FileNotFoundError: the jars have not been installed.
    """
    if java_options is None:
        java_options = f'"-XX:SharedArchiveFile={classes_archive()}"' if classes_archive().exists() else ""
    # Another Spark on this machine must not replace this package's.
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(name, None)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.update(UTF8)
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("messagestore")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraClassPath", os.pathsep.join(class_path()))
        .config("spark.driver.extraJavaOptions", f"{LITTLE_JAVA_OPTIONS if little else JAVA_OPTIONS} {java_options}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.default.parallelism", str(cores))
        # Larger results of a task go through a port of this machine, encrypted: a tenth of a small batch's CPU.
        .config("spark.task.maxDirectResultSize", "64m")
    )
    for name, value in {**DEFAULTS, **SETTINGS, **(LITTLE if little else {}), **(settings or {})}.items():
        builder = builder.config(name, value)
    return _ready(builder.getOrCreate())


def cluster_session(*, executors: bool = True, little: bool = False) -> SparkSession:
    """The session of a driver in a cluster. Sizes are those of the submission, and master and addresses with executors.

    Our settings override submitted ones. If this process starts the JVM, the JVM gets our options too. Without
    executors the driver does their work.
    """
    if not executors:
        os.environ["PYSPARK_SUBMIT_ARGS"] = _in_driver(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    os.environ.setdefault("JDK_JAVA_OPTIONS", f"{LITTLE_JAVA_OPTIONS if little else JAVA_OPTIONS} {_HEAP}")
    os.environ.update(UTF8)
    # Only the JVM knows the submitted settings.
    SparkContext._ensure_initialized()
    submitted = SparkConf()
    builder = SparkSession.builder.config("spark.executorEnv.JDK_JAVA_OPTIONS", JAVA_OPTIONS)
    ours = {**SETTINGS, **DISKS, **(LITTLE if little else {}), **(FEW_TASKS if not executors else {})}
    for name, value in {**DEFAULTS, **ours}.items():
        if name in ours or not submitted.contains(name):
            builder = builder.config(name, value)
    return _ready(builder.getOrCreate())


def _ready(session: SparkSession) -> SparkSession:
    """The session, which logs errors alone and looks up each name in the JVM once.

    py4j asks for each part of ``org.apache.spark``, and for each function of an expression, again each time. The JVM
    then searches all jars for a class of that name.
    """
    session.sparkContext.setLogLevel("ERROR")
    for kind in _NAMED:
        if not hasattr(kind.__getattr__, "asks"):
            kind.__getattr__ = _remembering(kind.__getattr__)
    return session


def _remembering(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """A look-up that makes packages, classes and static methods it has found attributes: Python finds these itself."""

    def look_up(owner: Any, name: str) -> Any:
        found = ask(owner, name)
        if isinstance(found, JavaPackage | JavaClass | JavaMember):
            owner.__dict__[name] = found
        return found

    look_up.asks = ask  # type: ignore[attr-defined]
    return look_up


def _in_driver(arguments: str) -> str:
    """The arguments of a submission, with those by which the driver does the work of executors: the last ones count."""
    before, program, after = arguments.rpartition("pyspark-shell")
    return f"{before}--master local[{TASKS_IN_DRIVER}] {_LOOPBACK} {program}{after}"


def jvm_of(spark: SparkSession) -> Any:
    """The session's JVM."""
    return spark._jvm


def extension(spark: SparkSession) -> Any:
    """The classes of the Spark extension, in the session's JVM."""
    return jvm_of(spark).dev.messagestore.spark


def python_bytes(spark: SparkSession) -> int:
    """Bytes of data that this Python process may hold, beside the JVM and what both need themselves.

    The JVM knows its container's limit. Without a container, other processes share the machine.
    """
    jvm, gateway = jvm_of(spark), spark.sparkContext._gateway
    assert gateway is not None
    system = jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
    # By the interface, as the bean's own class is not accessible.
    public = jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
    total = public.getMethod("getTotalMemorySize", gateway.new_array(jvm.java.lang.Class, 0))
    container = int(total.invoke(system, gateway.new_array(jvm.java.lang.Object, 0)))
    return left_for_data(container, _largest_heap(spark), shared=not _is_submitted(spark))


def left_for_data(container: int, heap: int, *, shared: bool) -> int:
    """Bytes left for Python's data in a container, or on a machine that is shared with others."""
    left = container - heap - _NOT_FOR_DATA
    return max(_LEAST_FOR_DATA, left // _SHARE_OF_MACHINE if shared else left)


def heap_bytes(spark: SparkSession) -> int:
    """Bytes of heap of driver or executor, whichever is smaller."""
    own = _largest_heap(spark)
    if _is_local(spark):
        return own
    size_of = jvm_of(spark).org.apache.spark.network.util.JavaUtils.byteStringAsBytes
    return min(own, int(size_of(spark.conf.get("spark.executor.memory", "1g"))))


def _largest_heap(spark: SparkSession) -> int:
    """The driver's -Xmx in bytes. ``maxMemory`` would be less, by a survivor space whose size changes as it runs."""
    java = jvm_of(spark).java.lang
    of = java.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    return int(java.management.ManagementFactory.getPlatformMXBean(of).getVMOption("MaxHeapSize").getValue())


def cores_of_heap(spark: SparkSession) -> int:
    """How many tasks share an executor's heap."""
    if _is_local(spark):
        return spark.sparkContext.defaultParallelism
    return int(spark.conf.get("spark.executor.cores", "1") or 1)


def is_for_little(spark: SparkSession) -> bool:
    """Whether the session was started for some megabytes of data."""
    return all(spark.conf.get(name, None) == value for name, value in FOR_LITTLE.items())


def _is_submitted(spark: SparkSession) -> bool:
    """Whether the session is a driver's in a pod of its own."""
    return not _is_local(spark) or spark.conf.get("spark.kubernetes.driver.pod.name", None) is not None


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Set session settings while the block lasts."""
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


class SparkStorage(Storage):
    """A ``Storage`` with what, of our clients, only Hadoop's can tell."""

    def __init__(self, entries: Sequence[StorageEntry], bundles: Mapping[str, str], spark: SparkSession) -> None:
        super().__init__(entries, bundles)
        self._spark = spark

    @override
    def versions_kept(self, uri: str) -> str | None:
        path = jvm_of(self._spark).org.apache.hadoop.fs.Path(uri)
        configuration = self._spark.sparkContext._jsc.hadoopConfiguration()
        kept = extension(self._spark).BucketVersions.kept(path, configuration)
        return None if kept is None else str(kept)


@contextmanager
def using(entries: Sequence[StorageEntry], spark: SparkSession) -> Iterator[Storage]:
    """Reach buckets by these entries, in this process and in its Spark session, while the block lasts.

    Spark's settings stay, as Spark keeps the file systems that it has opened.

    Raises:
        RunFailedError: a certificate authority can't be read.
    """
    with trusting(entries) as bundles:
        storage = SparkStorage(entries, bundles, spark)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in storage.hadoop_settings().items():
            configuration.set(name, value)
        yield storage


@contextmanager
def epochs(stores: Sequence[Store], spark: SparkSession) -> Iterator[None]:
    """Give Spark's commits to these stores their epochs while the block lasts, and the versions as of the claim."""
    values: dict[str, str] = {}
    for store in stores:
        if store.epoch is not None:
            # With Hadoop's spelling of the path.
            folder = jvm_of(spark).org.apache.hadoop.fs.Path(store.path("messages")).getParent().toString()
            values[f"{_EPOCH}{folder}"] = str(store.epoch)
            values |= {f"{_CLAIMED}{folder}/{name}": str(at.version) for name, at in store.known.all().items()}
    with settings(spark, values):
        yield
