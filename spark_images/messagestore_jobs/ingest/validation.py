"""The verdict on each record by itself: dead letter, not selected, or fit to store."""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import Envelope, Filter
from messagestore_core.predicate import FILTER_COLUMNS
from messagestore_core.predicate.spark import condition, failure
from messagestore_core.reasons import DeadLetterReason as Reason
from messagestore_jobs.ingest import cloud_events
from messagestore_jobs.ingest.envelope import problems, wire
from messagestore_jobs.rows.matching import compiled
from messagestore_jobs.source.columns import Projections

_LONGEST_NAME = 100


class _Violation(NamedTuple):
    """A condition, and the reason and detail of records that meet it."""

    met: Column
    reason: Reason
    detail: Column


def verdict_columns(task: IngestTask) -> Projections:
    """Columns reason and detail string (why a record is a dead letter, or null) and unselected boolean.

    The first violation counts, in this order: unreadable, missing fields, invalid fields, the stream's name, the
    payload's size, the filter.
    """
    selected, failed = selector(task.filter)
    violations = [
        *_unreadable(),
        *_missing(task.envelope),
        *_of_event(task.envelope),
        *(_Violation(met, Reason.INVALID_FIELD, F.lit(words)) for met, words in problems(task.envelope)),
        *_unknown(task.envelope),
        *_bad_stream_name(),
        *_too_large(task.max_payload_bytes),
        _Violation(failed, Reason.FILTER_ERROR, F.lit("filter.where can't be computed for this record")),
    ]
    if task.filter.unmatched == "DeadLetter":
        violations.append(_Violation(~selected, Reason.UNSELECTED, F.lit("the stream's filter does not select it")))
    return (
        (
            _first(violations, lambda one: F.lit(str(one.reason))).alias("reason"),
            _first(violations, lambda one: one.detail).alias("detail"),
            (~selected).alias("unselected"),
        ),
    )


def selector(chosen: Filter) -> tuple[Column, Column]:
    """Whether the filter selects a record, and whether its predicate could not be evaluated."""
    selected: Column = F.lit(True)
    if chosen.types:
        selected = F.coalesce(F.col("type").isin(*chosen.types), F.lit(False))
    if chosen.where is None:
        return selected, F.lit(False)
    predicate = compiled(chosen.where, FILTER_COLUMNS, "filter.where")
    return selected & F.coalesce(condition(predicate), F.lit(False)), selected & failure(predicate)


def _first(violations: list[_Violation], then: Callable[[_Violation], Column]) -> Column:
    empty = F.lit(None).cast("string")
    return reduce(lambda rest, one: F.when(one.met, then(one)).otherwise(rest), reversed(violations), empty)


def _unreadable() -> list[_Violation]:
    reason = F.col("fault_reason")
    return [
        _Violation(F.col("size").isNotNull(), Reason.RECORD_TOO_LARGE, F.col("fault")),
        _Violation(F.col("fault").isNotNull() & reason.isNull(), Reason.UNPARSEABLE, F.col("fault")),
        _Violation(F.col(wire("reason")) == str(Reason.UNPARSEABLE), Reason.UNPARSEABLE, F.col(wire("detail"))),
        *(_Violation(reason == str(one), one, F.col("fault")) for one in (Reason.MISSING_FIELD, Reason.INVALID_FIELD)),
        _Violation(F.col(wire("reason")) == str(Reason.MISSING_FIELD), Reason.MISSING_FIELD, F.col(wire("detail"))),
        _Violation(F.col(wire("reason")).isNotNull(), Reason.INVALID_FIELD, F.col(wire("detail"))),
    ]


def _missing(envelope: Envelope) -> list[_Violation]:
    names = {name: name for name in envelope.required}
    names |= cloud_events.REQUIRED if envelope.format == "CloudEvents" else {"messageId": "messageId"}
    required = {shown: F.col(wire(name)) for name, shown in names.items()}
    missing = [(value, f"{name} is absent or null") for name, value in required.items()]
    missing.append((F.col("stream_name"), "streamName is absent or null, and so is category"))
    return [_Violation(value.isNull(), Reason.MISSING_FIELD, F.lit(words)) for value, words in missing]


def _of_event(envelope: Envelope) -> list[_Violation]:
    if envelope.format != "CloudEvents":
        return []
    columns = {name: F.col(wire(name)) for name in cloud_events.CHECKED}
    return [_Violation(met, Reason.INVALID_FIELD, words) for met, words in cloud_events.problems(columns)]


def _unknown(envelope: Envelope) -> list[_Violation]:
    name = F.col(wire("unknown"))
    words = F.concat(F.substring(name, 1, _LONGEST_NAME), F.lit(" is no field of a Native record"))
    return [_Violation(name.isNotNull(), Reason.INVALID_FIELD, words)] if envelope.unknown_fields == "Refuse" else []


def _bad_stream_name() -> list[_Violation]:
    composed = F.col(wire("streamName")).isNull()
    dashed = composed & F.col(wire("category")).contains("-")
    return [
        _Violation(F.col("category") == "", Reason.INVALID_STREAM_NAME, F.lit("the category is empty")),
        _Violation(dashed, Reason.INVALID_STREAM_NAME, F.lit("the category holds -, which ends a category")),
    ]


def _too_large(limit: int) -> list[_Violation]:
    words = F.format_string(f"the payload has %d bytes, at most {limit} are allowed", F.col("payload_size"))
    return [_Violation(F.col("payload_size") > limit, Reason.PAYLOAD_TOO_LARGE, words)]
