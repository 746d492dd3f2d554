"""Columns of a record: texts parsed to values, null where a text can't be parsed, and columns added step by step.

The expressions don't depend on a batch, so a run builds them once: each takes a few calls into the JVM.
"""

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from messagestore_core.bounds import FIRST_MOMENT, LAST_MOMENT
from messagestore_core.clock import microseconds
from messagestore_core.contract.records import TimeUnit

Projections = tuple[tuple[Column, ...], ...]
_TTL = (
    r"^P(?!$)(?:(\d{1,6})W)?(?:(\d{1,7})D)?"
    r"(?:T(?!$)(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,10})(?:\.(\d{1,6}))?S)?)?\z"
)
_NUMBER = r"^-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?\z"
"""With a longer exponent, a decimal of some bytes would take all memory."""
_MICROSECONDS = {"Seconds": "1000000", "Milliseconds": "1000", "Microseconds": "1", "Nanoseconds": "0.001"}
_FIRST, _LAST = microseconds(FIRST_MOMENT), microseconds(LAST_MOMENT)
_TTL_MICROSECONDS = {1: 7 * 86_400_000_000, 2: 86_400_000_000, 3: 3_600_000_000, 4: 60_000_000, 5: 1_000_000}


def with_projections(rows: DataFrame, steps: Projections) -> DataFrame:
    """Add the columns of each step in turn."""
    return reduce(lambda so_far, columns: so_far.select("*", *columns), steps, rows)


def json_envelope(spec: Mapping[str, Any], texts: Sequence[str]) -> Column:
    """The fields of the JSON record in column ``value``, a struct; ``texts`` are the names of the scalars among them.

    ``spec`` says where the record has them; see ``EnvelopeSpec`` of the extension.
    """
    named = F.lit(None).cast(StructType([StructField(name, StringType()) for name in texts]))
    return F.call_function("messagestore.envelope", F.col("value"), F.lit(json.dumps(spec)), named)


def time_of(text: Column, unit: TimeUnit | None = None) -> Column:
    """A time of the years 1 to 9999, to the microsecond, by RFC 3339, or as a number of a unit since 1970; or null."""
    if unit is None:
        return F.call_function("messagestore.time", text)
    number = F.when(text.rlike(_NUMBER), text.try_cast("decimal(36, 12)"))
    moment = F.floor(number * F.lit(_MICROSECONDS[unit]).cast("decimal(10, 3)"))
    return F.when(moment.between(_FIRST, _LAST), F.timestamp_micros(moment.try_cast("bigint")))


def no_time(unit: TimeUnit | None = None) -> str:
    """What a text that is no time of ``time_of`` is not, in words that follow its field's name."""
    form = "RFC 3339 time" if unit is None else f"number of {unit.lower()} since 1970"
    return f"is no {form} in the years 1 to 9999"


def duration_microseconds(text: Column) -> Column:
    """An ISO 8601 duration in weeks or smaller units; null if the text is none."""
    total: Column = F.lit(0).cast("bigint")
    for group, unit in _TTL_MICROSECONDS.items():
        total = total + F.coalesce(F.regexp_extract(text, _TTL, group).cast("bigint"), F.lit(0)) * F.lit(unit)
    fraction = F.rpad(F.regexp_extract(text, _TTL, 6), 6, "0").cast("bigint")
    return F.when(text.rlike(_TTL), total + F.coalesce(fraction, F.lit(0)))


def whole_number(text: Column) -> Column:
    """A whole number of at most 18 digits, so that it fits a long; null if the text is none."""
    return F.when(text.rlike(r"^-?(0|[1-9]\d{0,17})\z"), text.cast("bigint"))


def true_or_false(text: Column) -> Column:
    """True or false of exactly ``true`` or ``false``; null otherwise."""
    return F.when(text == "true", True).when(text == "false", False)


def headers_of(headers: Column) -> Column:
    """Headers, a map of texts; an empty one for null."""
    return F.coalesce(headers, F.create_map().cast("map<string,string>"))


def with_headers(headers: Column, added: Mapping[str, Column]) -> Column:
    """Headers, and those of the added ones that are not null; a header of the same name counts, not the added one."""
    known = F.map_from_arrays(F.array(*map(F.lit, added)), F.array(*added.values()))
    return F.map_concat(F.map_filter(known, lambda _, value: value.isNotNull()), headers_of(headers))
