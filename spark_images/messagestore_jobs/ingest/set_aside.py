"""The dead letters of a batch: their bytes are read once it is known which they are, a portion at a time.

Of what is set aside the driver holds a portion's bytes and no more, however much of a batch that is.
"""

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.ingest.assign import Assignment
from messagestore_jobs.ingest.expected import Numbers
from messagestore_jobs.ingest.write import REPLACED, letter_columns, letters_of
from messagestore_jobs.session import heap_bytes
from messagestore_jobs.store.dead_letters import new_letters
from messagestore_jobs.store.errors import RunFailedError
from messagestore_jobs.store.schemas import SOURCE

_SHARE_OF_HEAP = 32
"""A portion is held several times while it is written: as it came, as rows, as a file."""


class SourceChangedError(RunFailedError):
    """A batch's records are not what they were when they were judged."""

    def __init__(self) -> None:
        super().__init__("SourceChanged", f"{REPLACED}; the next run reads it anew")


def portion_bytes(spark: SparkSession) -> int:
    """How large a portion may be; the last letter of one comes on top."""
    return max(1, heap_bytes(spark) // _SHARE_OF_HEAP)


def portions(sizes: Numbers, most: int) -> Numbers:
    """Which portion each dead letter is in (0, 1, … with gaps), by the size of each in order of arrival."""
    numbers: Numbers = (np.cumsum(sizes) - sizes) // most
    return numbers


def read_letters(
    placed: DataFrame, unfit: Numbers, portion: Numbers, assigned: Assignment, about: tuple[datetime, str]
) -> Iterator[pa.Table]:
    """The rows to set aside (schema DEAD_LETTERS), a table a portion, in order of arrival.

    Args:
        placed: the batch's records, with their assignment.
        unfit: the places of those that are set aside, ascending.
        portion: of each.
        assigned: what becomes of each record.
        about: when they are set aside, and by which batch.

    Raises:
        SourceChangedError: others are there by now.
    """
    refused = assigned.refused
    why = dict(zip(refused.rows.tolist(), zip(refused.reasons, refused.details, strict=True), strict=True))
    columns = letter_columns(placed)
    for number in np.unique(portion).tolist():
        rows = placed.where(letters_of(number)).select(*columns).toArrow().sort_by("place")
        if rows["place"].to_pylist() != unfit[portion == number].tolist():
            raise SourceChangedError
        told = [why.get(place, (None, None)) for place in rows["place"].to_pylist()]
        reasons = pc.coalesce(pa.array([reason and str(reason) for reason, _ in told], pa.string()), rows["reason"])
        if reasons.null_count:
            raise SourceChangedError
        details = pc.coalesce(pa.array([detail for _, detail in told], pa.string()), rows["detail"])
        yield _letters(rows, {"reason": reasons, "detail": details}, about)


def _letters(rows: pa.Table, why: dict[str, pa.ChunkedArray], about: tuple[datetime, str]) -> pa.Table:
    source = pa.StructArray.from_arrays([rows[n].combine_chunks() for n in SOURCE.names], fields=list(SOURCE))
    headers = {"headers": rows["record_says"]} if "record_says" in rows.column_names else {}
    return new_letters({**why, **headers, "raw": rows["raw"], "source": source}, *about)
