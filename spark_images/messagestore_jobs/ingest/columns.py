"""All column expressions of a run's batches.

Expected version and place in a sequence, which few records have, come to the driver in one text column. It is null for
a record without them: then it takes four bytes a record, a seventh of what columns of their own would take.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.store.dead_letters import NAME_COLUMNS
from messagestore_jobs.index.read import hashed
from messagestore_jobs.ingest.assign import EXPECTED_BY_NOBODY, IN_NO_SEQUENCE
from messagestore_jobs.ingest.earlier_events import earlier_columns
from messagestore_jobs.ingest.envelope import (
    can_carry,
    envelope_columns,
    field_columns,
    name_columns,
    record_says,
    says_more,
    tells_unknown,
    wire,
)
from messagestore_jobs.ingest.refusals import Expected, Members, Numbers
from messagestore_jobs.ingest.validation import verdict_columns
from messagestore_jobs.ingest.write import assignment_columns, clock, dead_letter_columns, identity, row_columns
from messagestore_jobs.sequences import declared_size
from messagestore_jobs.source.columns import Projections, whole_number

DEAD_LETTER = "letter"
TOMBSTONE = "tombstone"
_BESIDE_ITS_BYTES = 1024
"""Bytes of a dead letter beside its record: source, reason, detail, and Python's own for each."""
ORDERING = "ordering"
SEPARATOR = "|"
"""Separates expected version, number, size and sequence; the first three are empty where they are absent."""
PRESENT = "="
"""Stands before a sequence's id, as the id may be empty."""
_ORDERING_PARTS = 4


@dataclass(frozen=True)
class Columns:
    """The columns of each step.

    Attributes:
        validated: of records: their fields and a verdict.
        narrow: of judged records: what the driver needs to decide.
        decided: of judged records: what the driver decided.
        rows: of placed records: the columns of ``messages``.
    """

    validated: Projections
    narrow: tuple[Column, ...]
    decided: Projections
    rows: tuple[Column, ...]


def columns_of(
    spark: SparkSession,
    task: IngestTask,
    uri: str,
    suffix: str,
    dead_letter_bytes_at_once: int,
    index_key: bytes,
    tombstone_key: bytes | None,
    *,
    earlier_events: bool,
) -> Columns:
    """The columns for one task.

    Args:
        suffix: the end of names of the run's claim checks.
        dead_letter_bytes_at_once: how many bytes of dead letters each Spark task may return with the verdicts.
        index_key: the key of the index, by which message ids are hashed.
        tombstone_key: that of tombstones and purged ids; None if there are none.
        earlier_events: whether to look for CloudEvents that an earlier release stored.
    """
    return Columns(
        validated=(
            *envelope_columns(task.envelope, task.source.format, of_kafka=_of_kafka(task)),
            *([(record_says(of_kafka=_of_kafka(task)).alias("record_says"),)] if _says(task) else []),
            *field_columns(task, clock()),
            *verdict_columns(task),
        ),
        narrow=(
            *_narrow(task, dead_letter_bytes_at_once),
            hashed(spark, index_key, "message_id").alias("id"),
            *([hashed(spark, tombstone_key, "message_id").alias(TOMBSTONE)] if tombstone_key else []),
            *(earlier_columns(spark, index_key) if earlier_events else ()),
        ),
        decided=assignment_columns(),
        rows=row_columns(task, uri.rstrip("/"), suffix),
    )


def ordering_of(narrow: pa.Table) -> tuple[Expected, Members]:
    """The records with an expected version and those of sequences, from column ``ordering`` if there is one."""
    if ORDERING not in narrow.column_names or narrow[ORDERING].null_count == narrow.num_rows:
        return EXPECTED_BY_NOBODY, IN_NO_SEQUENCE
    rows = np.flatnonzero(pc.is_valid(narrow[ORDERING]))
    texts = narrow[ORDERING].take(pa.array(rows)).combine_chunks()
    flat = pc.split_pattern(texts, SEPARATOR, max_splits=_ORDERING_PARTS - 1).flatten()
    expected, number, declared, sequence = (
        flat.take(pa.array(np.arange(i, len(flat), _ORDERING_PARTS))) for i in range(_ORDERING_PARTS)
    )
    return _expected(rows, expected), _members(rows, number, declared, sequence)


def _of_kafka(task: IngestTask) -> bool:
    return task.source.kind == "kafka" or (task.source.kind == "records" and task.source.of_kafka)


def _says(task: IngestTask) -> bool:
    return says_more(task.envelope, of_kafka=_of_kafka(task))


def _narrow(task: IngestTask, dead_letter_bytes_at_once: int) -> tuple[Column, ...]:
    ordering = tuple(_ordering(task))
    suspect = reduce(or_, [F.col("reason").isNotNull(), F.col("expired"), *(t.isNotNull() for t in ordering)])
    return (
        F.col("part"),
        F.col("row"),
        identity().alias("identity"),
        F.col("stream_name"),
        F.col("reason").isNotNull().alias("dead"),
        F.col("unselected"),
        F.col("expired"),
        F.when(suspect, _dead_letter_bytes(says=_says(task))).alias("letter_bytes"),
        *_dead_letter(task, dead_letter_bytes_at_once),
        *_unknown(task),
        *(t.alias(ORDERING) for t in ordering),
    )


def _unknown(task: IngestTask) -> Iterator[Column]:
    if tells_unknown(task.envelope, task.source.format):
        yield F.col(wire("unknown")).isNotNull().alias("unknown")


def _dead_letter(task: IngestTask, at_once: int) -> Iterator[Column]:
    """Column letter: a whole dead letter, while the task has few; null for other records.

    Most batches have few, and reading them later means reading the whole batch again.
    """
    if task.source.kind != "records":
        size = _dead_letter_bytes(says=_says(task))
        fits = F.call_function("messagestore.within", size, F.lit(at_once).cast("bigint"))
        dead_letter = F.struct(*dead_letter_columns(says=_says(task)))
        # Without the cast, fields that no dead letter has null would count as never null in other records too.
        yield F.when(F.col("reason").isNotNull() & fits, dead_letter).cast(_dead_letter_type(task)).alias(DEAD_LETTER)


def _dead_letter_type(task: IngestTask) -> str:
    fields = "raw binary, reason string, detail string, kind string, uri string, partition int, offset bigint, "
    fields += "".join(f"{name} string, " for name in NAME_COLUMNS) + "cut boolean"
    return f"struct<{fields}{', record_says map<string, string>' if _says(task) else ''}>"


def _dead_letter_bytes(*, says: bool) -> Column:
    """About how many bytes a driver holds of a dead letter."""
    beside = F.octet_length(F.to_json("record_says")) if says else F.lit(0)
    named = F.octet_length(F.concat_ws("", *name_columns()))
    return (F.coalesce(F.octet_length("value"), F.lit(0)) + beside + named + F.lit(_BESIDE_ITS_BYTES)).cast("bigint")


def _ordering(task: IngestTask) -> Iterator[Column]:
    """Column ordering: expected version and place in a sequence, if the envelope can have them."""
    if not any(can_carry(task.envelope, task.source.format, name) for name in ("expectedVersion", "sequenceId")):
        return
    expected = whole_number(F.col(wire("expectedVersion")))
    member = F.col("sequence_id").isNotNull()
    columns = (expected, F.when(member, F.col("sequence_number")), F.when(member, declared_size()))
    parts = [F.coalesce(number.cast("string"), F.lit("")) for number in columns]
    sequence = F.coalesce(F.concat(F.lit(PRESENT), "sequence_id"), F.lit(""))
    yield F.when(expected.isNotNull() | member, F.concat_ws(SEPARATOR, *parts, sequence))


def _expected(rows: Numbers, texts: pa.Array) -> Expected:
    present = _is_present(texts)
    return Expected(rows[present], texts.filter(pa.array(present)).cast(pa.int64()).to_numpy())


def _members(rows: Numbers, number: pa.Array, declared: pa.Array, sequence: pa.Array) -> Members:
    present = _is_present(sequence)
    names = pc.dictionary_encode(pc.utf8_slice_codeunits(sequence.filter(pa.array(present)), len(PRESENT)))
    numbers, sizes = (_whole(texts.filter(pa.array(present))) for texts in (number, declared))
    return Members(rows[present], names.dictionary, names.indices.to_numpy(), numbers, sizes)


def _is_present(texts: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    present: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
    return present


def _whole(texts: pa.Array) -> Numbers:
    """Numbers of texts; 0 for an empty text."""
    numbers: Numbers = pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()).to_numpy()
    return numbers
