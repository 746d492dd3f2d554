"""The tables of a folder as Spark opens them."""

import json
from contextlib import suppress

from delta.tables import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.store.foreign import TableSays, not_ours, refuse
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.objects import join


def read_table(spark: SparkSession, uri: str, name: str, version: int | None = None) -> DataFrame:
    """The rows of a table, now or at a version.

    Raises:
        TableRefusedError: it says what no run of ours writes.
    """
    refuse_foreign_to_spark(spark, uri, name)
    reader = spark.read.format("delta")
    if version is not None:
        # Where it is gone, Spark says so in words that are known.
        with suppress(DeltaError):
            open_table(uri, name, version)
        reader = reader.option("versionAsOf", version)
    return reader.load(join(uri, name))


def table_to_change(spark: SparkSession, uri: str, name: str) -> DeltaTable:
    """For deletes, updates and merges.

    Raises:
        TableRefusedError: it says what no run of ours writes.
    """
    refuse_foreign_to_spark(spark, uri, name)
    return DeltaTable.forPath(spark, join(uri, name))


def refuse_foreign_to_spark(spark: SparkSession, uri: str, name: str) -> str:
    """Refuse a table right before Spark opens it: by the files that it has, and by what Spark itself reads in its log.

    Returns:
        Its protocol and metadata, as Spark's side tells them.

    Raises:
        TableRefusedError: it says what no run of ours writes.
    """
    open_table(uri, name)
    jvm = spark._jvm
    assert jvm is not None
    path, none = jvm.org.apache.hadoop.fs.Path(join(uri, name)), jvm.scala.Option.empty()
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).update(False, none, none)
    text = str(jvm.dev.messagestore.spark.BatchCommit.says(snapshot))
    told = _told(snapshot.version(), text)
    refuse(uri, name, told.version, not_ours(name, told))
    return text


def _told(version: int, text: str) -> TableSays:
    protocol, metadata = (json.loads(line) for line in text.split("\n"))
    protocol, metadata = protocol["protocol"], metadata["metaData"]
    return TableSays(
        version,
        protocol["minReaderVersion"],
        protocol["minWriterVersion"],
        [*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())],
        metadata["configuration"],
        metadata["partitionColumns"],
        metadata["schemaString"],
    )
