"""Open a store's tables in Spark."""

import json
from contextlib import suppress
from functools import cache

from delta.tables import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType

from messagestore_core.store.foreign import TableMetadata, not_ours, refuse
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import EVERY_TABLE


def read_table(spark: SparkSession, store: Store, name: str, version: int | None = None) -> DataFrame:
    """The rows of a table, now or at a version, with all columns of this release; missing ones are null.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    refuse_foreign_to_spark(spark, store, name)
    reader = spark.read.format("delta")
    if version is not None:
        # If the version is gone, Spark's error says so in a way that callers recognize.
        with suppress(DeltaError):
            store.table(name, version)
        reader = reader.option("versionAsOf", version)
    rows = reader.load(store.path(name))
    columns = _types(name)
    return rows.withColumns({c: F.lit(None).cast(columns[c]) for c in columns if c not in rows.columns})


@cache
def _types(name: str) -> dict[str, DataType]:
    return {field.name: field.dataType for field in from_arrow_schema(EVERY_TABLE[name])}


def table_to_change(spark: SparkSession, store: Store, name: str) -> DeltaTable:
    """A table for deletes, updates and merges.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    refuse_foreign_to_spark(spark, store, name)
    return DeltaTable.forPath(spark, store.path(name))


def refuse_foreign_to_spark(spark: SparkSession, store: Store, name: str) -> str:
    """Check a table right before Spark opens it: its files, and its log as Spark reads it.

    Returns:
        Its protocol and metadata, as Spark reads them.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    store.table(name)
    jvm = spark._jvm
    assert jvm is not None
    path, none = jvm.org.apache.hadoop.fs.Path(store.path(name)), jvm.scala.Option.empty()
    snapshot = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).update(False, none, none)
    text = str(jvm.dev.messagestore.spark.BatchCommit.says(snapshot))
    metadata = _metadata(snapshot.version(), text)
    refuse(store.uri, name, metadata.version, not_ours(name, metadata))
    return text


def _metadata(version: int, text: str) -> TableMetadata:
    protocol, metadata = (json.loads(line) for line in text.split("\n"))
    protocol, metadata = protocol["protocol"], metadata["metaData"]
    return TableMetadata(
        version,
        protocol["minReaderVersion"],
        protocol["minWriterVersion"],
        [*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())],
        metadata["configuration"],
        metadata["partitionColumns"],
        metadata["schemaString"],
    )
