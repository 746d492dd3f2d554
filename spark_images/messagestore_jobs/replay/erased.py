"""Messages that have been erased and that the frozen version still has: a replay sends its selection less these."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.replay.source import Source
from messagestore_jobs.store.erased import open_erased


def without_erased(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of ``messages`` less those that a tombstone names by now; where there is none, no id is looked at."""
    erased = open_erased(source.uri)
    if not erased.any():
        return rows
    chosen = rows.select("message_id", "global_position").toArrow()
    gone = chosen.filter(pa.array(erased.contains(chosen["message_id"]))).select(["global_position"])
    if not gone.num_rows:
        return rows
    left = rows.join(F.broadcast(source.spark.createDataFrame(gone)), "global_position", "left_anti")
    return left.select(*rows.columns)
