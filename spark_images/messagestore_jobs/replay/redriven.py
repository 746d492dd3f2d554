"""What became of dead letters that were sent to a stream again: marked in their rows, and counted at the end."""

from datetime import datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.schemas import SOURCE, literal
from messagestore_jobs.store.schemas import UTC as TIMESTAMP
from messagestore_jobs.store.tables import read_table


class Redrive(NamedTuple):
    """When a redrive began, its resource, and the source id that the target knows it by."""

    at: datetime
    by: str
    source: str


def mark_redriven(uri: str, sent: pa.Table, redrive: Redrive) -> None:
    """Set redriven_at and redriven_by of the dead letters whose bytes and place are in ``sent``, if they are not set.

    One that failed again has been set aside anew by the replay's own batch, and stays to be sent once more.

    Args:
        uri: the folder that holds them.
        sent: columns value, uri, offset, partition and kind.
        redrive: who sends them.
    """
    marks = sent.select(["value", "uri", "offset", "partition", "kind"])
    marks = marks.append_column("at", pa.array([redrive.at] * len(marks), TIMESTAMP))
    marks = marks.append_column("by", pa.array([redrive.by] * len(marks), pa.string()))
    places = " AND ".join(
        f"(d.source['{name}'] IS NOT DISTINCT FROM s.\"{name}\")" for name in ("uri", "offset", "partition", "kind")
    )
    others = f"NOT starts_with(coalesce(d.batch, ''), {literal(f'{redrive.source}/')})"
    table: DeltaTable = open_to_write(uri, "dead_letters")
    table.merge(
        marks,
        predicate=f"(d.raw IS NOT DISTINCT FROM s.value) AND {places} AND d.redriven_at IS NULL AND {others}",
        source_alias="s",
        target_alias="d",
        commit_properties=commit_properties(uri),
    ).when_matched_update(updates={"redriven_at": 's."at"', "redriven_by": 's."by"'}).execute()


def became(spark: SparkSession, uri: str, target: str, redrive: Redrive, sent: int) -> dict[str, int]:
    """How many of the dead letters that were sent the target stored, set aside again, and did neither with.

    Told from the tables, so that a redrive that was cut off anywhere counts the same.

    Args:
        spark: the session.
        uri: the folder that holds them.
        target: the folder that they were sent to.
        redrive: which has sent them.
        sent: how many.
    """
    if not sent:
        # There may be no store that they could have come from.
        return {"stored": 0, "dead_lettered": 0, "duplicates": 0}
    marked = (F.col("redriven_at") == F.lit(redrive.at)) & (F.col("redriven_by") == redrive.by)
    letters = read_table(spark, uri, "dead_letters").where(marked).select(F.col("source").alias("place"))
    # A clock may have gone back between two runs, by no day.
    since = F.lit((redrive.at - timedelta(days=1)).date())
    messages = read_table(spark, target, "messages").where(F.col("inserted_date") >= since)
    same = [F.col(f"source.{name}").eqNullSafe(F.col(f"place.{name}")) for name in SOURCE.names]
    stored = messages.select("source").join(letters, same, "left_semi").count()
    own = f"{redrive.source}/"
    again = F.col("batch").startswith(own) | F.exists("earlier", lambda refusal: refusal["batch"].startswith(own))
    refused = read_table(spark, target, "dead_letters").where(again).count()
    return {"stored": stored, "dead_lettered": refused, "duplicates": max(0, sent - stored - refused)}
