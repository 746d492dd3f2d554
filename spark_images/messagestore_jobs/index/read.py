"""Hash a table's rows: few are read by this process, many by Spark."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.id_index import SortedRunInfo
from messagestore_core.store.layout import INDEX
from messagestore_core.store.objects import Objects, join
from messagestore_core.store.schemas import MESSAGES, PURGED_IDS, REMEMBERED
from messagestore_jobs.index.changes import Batch, Changes
from messagestore_jobs.index.entries import ENTRY, Entries, entries_of
from messagestore_jobs.index.keys import HASH_BYTES, Hasher, Keys, words
from messagestore_jobs.index.sorted_runs import write_sorted_run
from messagestore_jobs.session import extension

_ROWS_A_PART = 2_000_000
_BUCKETS = 1 << 16
_NOBODY = bytes(HASH_BYTES)

_COLUMNS = "message_id string, inserted_at timestamp, stream_name string, position bigint"
_SCHEMA = pa.schema(
    [MESSAGES.field(name).with_nullable(True) for name in ("message_id", "inserted_at", "stream_name", "position")]
)
_PURGED = pa.schema([PURGED_IDS.field(name).with_nullable(True) for name in ("message_key", "purged_at")])


Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Added:
    """What a committed batch adds: the keys of its messages, and its distinct streams with their next positions."""

    batch: Batch
    ids: Keys
    inserted_at: int
    streams: pa.Array
    next_positions: Positions
    next_global: int


class Leaving(NamedTuple):
    """Messages that a commit removed: the column global_position, and how many there are at most."""

    positions: DataFrame
    most: int


def read_in_driver(store: Store, key: bytes, changes: Changes) -> tuple[Entries, Entries]:
    """Entries of ids, where those of removed rows have negative values, and entries of streams.

    Raises:
        FileNotFoundError: a file is gone.
    """
    added, removed = (_read(store, "messages", _SCHEMA, paths) for paths in (changes.added, changes.removed))
    came, left = ((rows["message_id"].to_pylist(), _microseconds(rows["inserted_at"])) for rows in (added, removed))
    hasher = Hasher(key)
    ids = hasher.keys([*came[0], *left[0]])
    values = np.concatenate([came[1], ~left[1]])
    last = added.group_by("stream_name").aggregate([("position", "max")])
    streams = hasher.keys(last["stream_name"].to_pylist())
    return entries_of(ids, values), entries_of(streams, last["position_max"].to_numpy() + 1)


def read_purged(store: Store, paths: Collection[str]) -> Entries:
    """Entries of purged ids, of files of their table.

    Raises:
        FileNotFoundError: a file is gone.
        TableRefusedError: one is no keyed hash.
    """
    rows = _read(store, REMEMBERED, _PURGED, paths)
    whole = pc.fill_null(pc.equal(pc.binary_length(rows["message_key"]), HASH_BYTES), False)
    if not pc.all(whole, min_count=0).as_py():
        raise TableRefusedError(f"{store.path(REMEMBERED)} has a message_key that is no keyed hash: restore it")
    return entries_of(Keys.of_column(rows["message_key"]), _microseconds(rows["purged_at"]))


def purged_by_spark(spark: SparkSession, store: Store, paths: Collection[str]) -> DataFrame:
    """Entries as in ``read_purged``, in columns hash and value."""
    rows = files(spark, store, paths, "message_key binary, purged_at timestamp", REMEMBERED)
    return rows.select(F.col("message_key").alias("hash"), F.unix_micros("purged_at").alias("value"))


def hashed(spark: SparkSession, key: bytes, column: str) -> Column:
    """A binary column with the hash of each name in a text column; all zeros for null."""
    function = extension(spark).KeyedHashFunction.given(key)
    return F.coalesce(F.call_function(f"messagestore.{function}", F.col(column)), F.lit(_NOBODY))


def files(
    spark: SparkSession, store: Store, paths: Collection[str], columns: str = _COLUMNS, table: str = "messages"
) -> DataFrame:
    """The rows of files of a table, even if they are no longer in it."""
    return spark.read.schema(columns).parquet(*[store.path(table, path) for path in paths])


def rows_at(spark: SparkSession, store: Store, paths: Collection[str], positions: DataFrame) -> DataFrame:
    """The rows of files like ``files`` whose global_position is among ``positions``."""
    rows = files(spark, store, paths, f"{_COLUMNS}, global_position bigint")
    return rows.join(positions, "global_position", "left_semi")


def ids_by_spark(spark: SparkSession, key: bytes, added: DataFrame | None, removed: DataFrame | None) -> DataFrame:
    """Entries of ids as in ``read_in_driver``, in columns hash and value; one of ``added`` and ``removed`` is given."""
    sides = [
        rows.select(hashed(spark, key, "message_id").alias("hash"), F.unix_micros("inserted_at").alias("at"), sign)
        for rows, sign in ((added, F.lit(1).alias("sign")), (removed, F.lit(-1).alias("sign")))
        if rows is not None
    ]
    every = reduce(DataFrame.union, sides)
    if removed is not None:
        every = every.groupBy("hash", "at").agg(F.sum("sign").alias("sign")).where("sign != 0")
    return every.select("hash", F.when(F.col("sign") > 0, F.col("at")).otherwise(F.bitwise_not("at")).alias("value"))


def streams_by_spark(spark: SparkSession, key: bytes, rows: DataFrame) -> DataFrame:
    """Entries of streams as in ``read_in_driver``, in columns hash and value."""
    last = rows.groupBy("stream_name").agg(F.max("position").alias("position"))
    return last.select(hashed(spark, key, "stream_name").alias("hash"), (F.col("position") + 1).alias("value"))


def write_by_spark(store: HeldStore, rows: DataFrame, name: str, count: int) -> SortedRunInfo | None:
    """Write the entries of columns hash and value, ``count`` at most, as one sorted run; executors sort them."""
    objects = store.objects(INDEX)
    parts = max(1, -(-count // _ROWS_A_PART))
    bucket = (F.conv(F.hex(F.substring("hash", 1, 2)), 16, 10).cast("long") * parts / _BUCKETS).cast("int")
    folder = f"{name}.parts"
    ordered = rows.withColumn("part", bucket).repartition(parts, "part").sortWithinPartitions("part", "hash")
    with store.step("index-parts"):
        ordered.write.partitionBy("part").mode("overwrite").parquet(join(objects.uri, folder))
    with store.step("index"):
        info = write_sorted_run(objects, name, _parts(objects, folder, parts), count)
        objects.delete_folder(folder)
    return info


def sorted_run_name(kind: str) -> str:
    """The name of a new sorted run."""
    return f"{kind}-{uuid4().hex}"


def _parts(objects: Objects, folder: str, parts: int) -> Iterator[Entries]:
    for part in range(parts):
        filesystem, path = objects.locate(f"{folder}/part={part}")
        if filesystem.get_file_info(path).type.name == "NotFound":
            continue
        rows = ds.dataset(path, filesystem=filesystem, format="parquet").to_table(["hash", "value"])
        entries = np.empty(rows.num_rows, dtype=ENTRY)
        entries["high"], entries["low"] = words(rows["hash"])
        entries["value"] = rows["value"].to_numpy()
        yield entries[np.argsort(entries["high"], kind="stable")]


def _read(store: Store, table: str, schema: pa.Schema, paths: Collection[str]) -> pa.Table:
    objects, tables = store.objects(table), [schema.empty_table()]
    for path in paths:
        with objects.file(path) as file:
            rows = pq.read_table(file, columns=schema.names)
        tables.append(rows.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def _microseconds(times: pa.ChunkedArray) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    microseconds: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.cast(times, pa.int64()).to_numpy()
    return microseconds
