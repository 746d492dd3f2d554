"""Messages that have been erased and that the frozen version still has: a replay sends its selection less these."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.replay.source import Source
from messagestore_jobs.store.tombstones import message_key, read_tombstone_keys, tombstone_key


def without_erased(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of ``messages`` less those that a tombstone names by now; where there is none, no id is looked at."""
    keys = read_tombstone_keys(source.uri)
    own = tombstone_key(source.uri) if keys else None
    if own is None:
        return rows
    chosen = rows.select("message_id", "global_position").toArrow()
    erased = _erased(chosen, own, keys)
    if not erased:
        return rows
    gone = source.spark.createDataFrame([(position,) for position in erased], "global_position bigint")
    return rows.join(F.broadcast(gone), "global_position", "left_anti").select(*rows.columns)


def _erased(chosen: pa.Table, key: bytes, keys: set[str]) -> list[int]:
    ids, positions = chosen["message_id"].to_pylist(), chosen["global_position"].to_pylist()
    return [position for one, position in zip(ids, positions, strict=True) if message_key(key, one) in keys]
