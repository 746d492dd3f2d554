"""How a run with Spark reaches its buckets, and what Spark is told of its epochs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage, trusting

_EPOCH = "messagestore.epoch."


class SparkStorage(Storage):
    """As :class:`Storage`, with what of the clients at hand Hadoop's alone can do."""

    def __init__(self, entries: Sequence[StorageEntry], bundle: str | None, spark: SparkSession) -> None:
        super().__init__(entries, bundle)
        self._spark = spark

    def create(self, uri: str, content: bytes) -> bool:
        """Make an object if it is absent, by the object store's own word; false where there is another one."""
        jvm, context = self._spark._jvm, self._spark.sparkContext
        path = jvm.org.apache.hadoop.fs.Path(uri)  # type: ignore[union-attr]
        configuration = context._jsc.hadoopConfiguration()
        store = jvm.dev.messagestore.spark.ConditionalLogStore  # type: ignore[union-attr]
        return bool(store.createIfAbsent(path, content, configuration))

    def versions_kept(self, uri: str) -> str | None:
        """How a bucket keeps earlier versions of objects: Enabled, Suspended or nothing; None if it doesn't tell."""
        jvm, context = self._spark._jvm, self._spark.sparkContext
        path = jvm.org.apache.hadoop.fs.Path(uri)  # type: ignore[union-attr]
        kept = jvm.dev.messagestore.spark.BucketVersions.kept(path, context._jsc.hadoopConfiguration())  # type: ignore[union-attr]
        return None if kept is None else str(kept)


@contextmanager
def using(entries: Sequence[StorageEntry], spark: SparkSession) -> Iterator[Storage]:
    """Reach buckets by these entries, in this process and in its Spark session, while the block lasts.

    What Spark was told stays: it keeps the file systems that it has opened.

    Raises:
        RunFailedError: a certificate authority can't be read.
    """
    with trusting(entries) as bundle:
        storage = SparkStorage(entries, bundle, spark)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in storage.hadoop_settings().items():
            configuration.set(name, value)
        yield storage


@contextmanager
def epochs(stores: Sequence[Store], spark: SparkSession) -> Iterator[None]:
    """Let Spark's commits to these stores know their epochs, while the block lasts."""
    settings = {_setting(spark, store): str(store.epoch) for store in stores if store.epoch is not None}
    for name, epoch in settings.items():
        spark.conf.set(name, epoch)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _setting(spark: SparkSession, store: Store) -> str:
    """One setting for the tables of a folder; Hadoop has its own spelling of a path."""
    path = spark._jvm.org.apache.hadoop.fs.Path(store.path("messages"))  # type: ignore[union-attr]
    return f"{_EPOCH}{path.getParent().toString()}"
