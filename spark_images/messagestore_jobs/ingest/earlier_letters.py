"""Which records of a batch became dead letters before, and may be judged otherwise by now."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.ingest.expected import Numbers
from messagestore_jobs.ingest.message_ids import Flags
from messagestore_jobs.reasons import DeadLetterReason
from messagestore_jobs.store.dead_letters import PLACES, set_aside_for

_MAY_CHANGE = (
    DeadLetterReason.WRONG_EXPECTED_VERSION,
    DeadLetterReason.INVALID_FIELD,
    DeadLetterReason.EXPIRED_ON_ARRIVAL,
)
"""Why records are set aside for more than their own bytes: a duplicate is not, and what it contradicts may leave."""


@dataclass(frozen=True)
class Earlier:
    """Which records of a batch became dead letters before, from the same place.

    Attributes:
        refused: for the version that they expect, by an earlier batch.
        own: by an earlier try of the batch itself, which was cut off behind them.
    """

    refused: Flags
    own: Flags


def set_aside_earlier(
    folder: str, uris: set[str], batch: str, judged: DataFrame, starts: Numbers, rows: int
) -> Earlier:
    """Which records are dead letters already, that may be judged otherwise by now.

    Else a file that is read again could find that its streams have grown to what it expects; and a batch that is done
    again could store what it has set aside, where a purge came in between.

    Args:
        folder: of the tables.
        uris: those of the batch that may have been read before.
        batch: its own id.
        judged: its records.
        starts: the first place of each part.
        rows: how many records there are.
    """
    letters = set_aside_for(folder, uris, _MAY_CHANGE)
    own = pc.fill_null(pc.equal(letters["batch"], batch), False)
    refused = pc.equal(letters["reason"], str(DeadLetterReason.WRONG_EXPECTED_VERSION))
    return Earlier(
        refused=_at(letters.filter(pc.and_not(refused, own)), judged, starts, rows),
        own=_at(letters.filter(own), judged, starts, rows),
    )


def _at(letters: pa.Table, judged: DataFrame, starts: Numbers, rows: int) -> Flags:
    """Which records have the place and the bytes of one of these."""
    found = np.zeros(rows, dtype=np.bool_)
    if not letters.num_rows:
        return found
    known = F.broadcast(judged.sparkSession.createDataFrame(letters.select(PLACES.names))).alias("letter")
    same = [F.col(f"letter.{name}").eqNullSafe(F.col(f"record.{name}")) for name in ("uri", "partition", "offset")]
    same.append(F.col("letter.digest") == F.unhex(F.sha2("record.value", 256)))
    records = judged.where("row >= 0").alias("record")
    places = records.join(known, same, "left_semi").select("part", "row").toArrow()
    found[starts[places["part"].to_numpy()] + places["row"].to_numpy()] = True
    return found
