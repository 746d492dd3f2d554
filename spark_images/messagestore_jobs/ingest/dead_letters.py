"""The dead letters of a batch, and which of its records became dead letters before.

Dead letters that don't depend on other records come to the driver with the verdicts, up to a portion's bytes. The
others are read later, portion by portion, so that the driver never holds more than a portion of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.dead_letters import (
    DEAD_LETTER_KEY,
    NAME_COLUMNS,
    new_dead_letters,
    set_aside_for,
    source_column,
)
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_jobs.index.keys import Flags
from messagestore_jobs.ingest.assign import Assignment
from messagestore_jobs.ingest.columns import DEAD_LETTER
from messagestore_jobs.ingest.refusals import Numbers
from messagestore_jobs.ingest.write import dead_letter_columns, dead_letters_of, unchanged_value
from messagestore_jobs.source.arrivals import REPLACED
from messagestore_jobs.source.records import portion_bytes

_TASKS = 32
"""A batch has fewer tasks, unless there are as many cores."""
_MAY_CHANGE = (
    DeadLetterReason.WRONG_EXPECTED_VERSION,
    DeadLetterReason.INVALID_FIELD,
    DeadLetterReason.EXPIRED_ON_ARRIVAL,
)
"""Reasons that depend on more than the record's own bytes, so that a later try may judge the record otherwise."""


class SourceChangedError(RunFailedError):
    """A batch's records changed after they were judged."""

    def __init__(self) -> None:
        super().__init__("SourceChanged", f"{REPLACED}; the next run reads it anew")


def bytes_at_once(spark: SparkSession) -> int:
    """How many bytes of dead letters each Spark task may return with the verdicts: together about a portion."""
    return portion_bytes(spark) // max(_TASKS, spark.sparkContext.defaultParallelism)


def brought_along(narrow: pa.Table, unfit: Numbers) -> pa.Table | None:
    """The dead letters at rows ``unfit`` that came with the verdicts, with their rows in column place; None: none."""
    if DEAD_LETTER not in narrow.column_names:
        return None
    dead_letters = narrow[DEAD_LETTER].take(pa.array(unfit)).combine_chunks()
    has_bytes = dead_letters.is_valid()
    rows = pa.Table.from_struct_array(dead_letters.filter(has_bytes))
    return rows.append_column("place", pa.array(unfit, pa.int32()).filter(has_bytes)) if rows.num_rows else None


def read_dead_letters(
    along: pa.Table | None,
    decided: DataFrame,
    left: Numbers,
    portion: Numbers,
    assigned: Assignment,
    about: tuple[datetime, str],
) -> Iterator[pa.Table]:
    """Yield the dead letters (schema DEAD_LETTERS), a table per portion, each in order of arrival.

    Args:
        along: those of ``brought_along``; they go with the first portion.
        decided: the batch's records, with their assignment.
        left: the rows of the other dead letters, ascending.
        portion: the portion of each of ``left``.
        about: the time and the batch of the dead letters.

    Raises:
        SourceChangedError: the source has other records by now.
    """
    refused = assigned.refused
    why = dict(zip(refused.rows.tolist(), zip(refused.reasons, refused.details, strict=True), strict=True))
    if not len(left):
        if along is not None:
            yield _dead_letters(along, why, about)
        return
    columns = dead_letter_columns(says="record_says" in decided.columns)
    for number in np.unique(portion).tolist():
        checked = decided.where(dead_letters_of(number)).withColumn("value", unchanged_value())
        rows = checked.select("place", *columns).toArrow().sort_by("place")
        if rows["place"].to_pylist() != left[portion == number].tolist():
            raise SourceChangedError
        if along is not None:
            both = [along.select(rows.column_names), rows]
            rows, along = pa.concat_tables(both, promote_options="default").sort_by("place"), None
        yield _dead_letters(rows, why, about)


@dataclass(frozen=True)
class Earlier:
    """Which records of a batch became dead letters before, from the same place.

    An earlier batch ``refused`` them for their expected version, or an earlier try of their ``own`` set them aside.
    """

    refused: Flags
    own: Flags


def set_aside_earlier(
    store: Store, uris: set[str], batch: str, validated: DataFrame, starts: Numbers, rows: int
) -> Earlier:
    """Which records are dead letters already and might be judged otherwise by now.

    Otherwise a file that is read again could succeed because its streams have grown to what it expects, and a repeated
    batch could store what it set aside before, if a purge came in between.

    Args:
        uris: those of the batch that may have been read before.
        starts: the first row of each part.
        rows: how many records there are.
    """
    dead_letters = set_aside_for(store, uris, _MAY_CHANGE)
    own = pc.fill_null(pc.equal(dead_letters["batch"], batch), False)
    refused = pc.equal(dead_letters["reason"], str(DeadLetterReason.WRONG_EXPECTED_VERSION))
    return Earlier(
        refused=_at(dead_letters.filter(pc.and_not(refused, own)), validated, starts, rows),
        own=_at(dead_letters.filter(own), validated, starts, rows),
    )


def _dead_letters(rows: pa.Table, refused: Mapping[int, tuple[str, str]], about: tuple[datetime, str]) -> pa.Table:
    refusals = [refused.get(row, (None, None)) for row in rows["place"].to_pylist()]
    reasons = pc.coalesce(pa.array([reason and str(reason) for reason, _ in refusals], pa.string()), rows["reason"])
    if reasons.null_count:
        raise SourceChangedError
    details = pc.coalesce(pa.array([detail for _, detail in refusals], pa.string()), rows["detail"])
    headers = {"headers": rows["record_says"]} if "record_says" in rows.column_names else {}
    given = {"raw": rows["raw"], "reason": reasons, "detail": details, "source": source_column(rows)}
    given |= {name: rows[name] for name in (*NAME_COLUMNS, "cut")}
    return new_dead_letters({**given, **headers}, *about)


def _at(dead_letters: pa.Table, validated: DataFrame, starts: Numbers, rows: int) -> Flags:
    """Which records have source, offset and bytes of one of these dead letters."""
    flags = np.zeros(rows, dtype=np.bool_)
    if not dead_letters.num_rows:
        return flags
    known = F.broadcast(validated.sparkSession.createDataFrame(dead_letters.select(DEAD_LETTER_KEY.names))).alias(
        "letter"
    )
    same = [F.col(f"letter.{name}").eqNullSafe(F.col(f"record.{name}")) for name in ("uri", "partition", "offset")]
    same.append(F.col("letter.digest") == F.unhex(F.sha2("record.value", 256)))
    records = validated.where("row >= 0").alias("record")
    matching = records.join(known, same, "left_semi").select("part", "row").toArrow()
    flags[starts[matching["part"].to_numpy()] + matching["row"].to_numpy()] = True
    return flags
