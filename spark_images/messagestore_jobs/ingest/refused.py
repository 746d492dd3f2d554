"""Records that are refused for what came before them, where a batch reads and writes them."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.ingest.assign import REFUSED, Assignment
from messagestore_jobs.ingest.expected import Numbers
from messagestore_jobs.ingest.keys import Flags
from messagestore_jobs.ingest.write import refused_columns
from messagestore_jobs.reasons import DeadLetterReason
from messagestore_jobs.store.dead_letters import set_aside_before

_PLACE = ("uri", "partition", "offset", "raw")


def refused_before(folder: str, uris: set[str], batch: str, judged: DataFrame, starts: Numbers, rows: int) -> Flags:
    """Which records of a batch an earlier one refused, from the same place.

    Else a file that is read again could find that its streams have grown to what it expects.

    Args:
        folder: of the tables.
        uris: those of the batch that may have been read before.
        batch: its own id; what it set aside itself in an earlier try is judged again, the same.
        judged: its records.
        starts: the first place of each part.
        rows: how many records there are.
    """
    found = np.zeros(rows, dtype=np.bool_)
    earlier = set_aside_before(folder, uris, DeadLetterReason.WRONG_EXPECTED_VERSION)
    others = [place for place, by in earlier.items() if by != batch]
    if not others:
        return found
    schema = pa.schema({"uri": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "raw": pa.binary()})
    table = pa.Table.from_pylist([dict(zip(_PLACE, place, strict=True)) for place in others], schema)
    letters = F.broadcast(judged.sparkSession.createDataFrame(table)).alias("letter")
    same = [F.col(f"letter.{name}").eqNullSafe(F.col(f"record.{name}")) for name in ("uri", "partition", "offset")]
    same.append(F.col("letter.raw") == F.col("record.value"))
    records = judged.where("row >= 0").alias("record")
    places = records.join(letters, same, "left_semi").select("part", "row").toArrow()
    found[starts[places["part"].to_numpy()] + places["row"].to_numpy()] = True
    return found


def refused_records(placed: DataFrame, assigned: Assignment) -> pa.Table:
    """Columns place, raw, reason, detail and those of SOURCE, in order of arrival.

    The bytes of what is refused are read once it is known: no more come to the driver than are set aside.
    """
    columns = [*refused_columns(), *(F.col(name) for name in ("record_says",) if name in placed.columns)]
    rows = placed.where(f"position = {REFUSED}").select(*columns).toArrow().sort_by("place")
    reasons = pa.array(map(str, assigned.refused.reasons), pa.string())
    details = pa.array(assigned.refused.details, pa.string())
    return rows.append_column("reason", reasons).append_column("detail", details)
