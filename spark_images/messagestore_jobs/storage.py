"""How a run with Spark reaches its buckets, and how Spark learns the epochs of its stores."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import Storage, trusting

_EPOCH = "messagestore.epoch."


class SparkStorage(Storage):
    """A :class:`Storage` with functions that, of our clients, only Hadoop's has."""

    def __init__(self, entries: Sequence[StorageEntry], bundles: Mapping[str, str], spark: SparkSession) -> None:
        super().__init__(entries, bundles)
        self._spark = spark

    def create(self, uri: str, content: bytes) -> bool:
        """See :class:`Storage`."""
        jvm, context = self._spark._jvm, self._spark.sparkContext
        path = jvm.org.apache.hadoop.fs.Path(uri)  # type: ignore[union-attr]
        configuration = context._jsc.hadoopConfiguration()
        store = jvm.dev.messagestore.spark.ConditionalLogStore  # type: ignore[union-attr]
        return bool(store.createIfAbsent(path, content, configuration))

    def versions_kept(self, uri: str) -> str | None:
        """See :class:`Storage`."""
        jvm, context = self._spark._jvm, self._spark.sparkContext
        path = jvm.org.apache.hadoop.fs.Path(uri)  # type: ignore[union-attr]
        kept = jvm.dev.messagestore.spark.BucketVersions.kept(path, context._jsc.hadoopConfiguration())  # type: ignore[union-attr]
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
    """Give Spark's commits to these stores their epochs while the block lasts."""
    settings = {_setting(spark, store): str(store.epoch) for store in stores if store.epoch is not None}
    for name, epoch in settings.items():
        spark.conf.set(name, epoch)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _setting(spark: SparkSession, store: Store) -> str:
    """The setting for the tables of a folder, with Hadoop's spelling of the path."""
    path = spark._jvm.org.apache.hadoop.fs.Path(store.path("messages"))  # type: ignore[union-attr]
    return f"{_EPOCH}{path.getParent().toString()}"
