"""Seals as column expressions."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Integrity
from messagestore_jobs.integrity.sealed import COLUMNS, HEADERS, PREFIX, TIMES


def seal(key: str, columns: Mapping[str, Column]) -> Column:
    """The seal of a message.

    Args:
        key: the variable that holds it.
        columns: each of ``sealed.COLUMNS``, of the types of ``messages``.
    """
    text = F.concat(*(_part(name, columns[name]) for name in COLUMNS))
    return F.concat(F.lit(PREFIX), F.call_function("messagestore.hmac_sha256", text.cast("binary"), F.lit(key)))


def own_columns(prefix: str = "") -> dict[str, Column]:
    """The columns of a row of ``messages``, for :func:`seal`."""
    return {name: F.col(f"{prefix}{name}") for name in COLUMNS}


def is_sealed(integrity: Integrity, key: str) -> Column:
    """Whether a row of ``messages`` is as it was sealed."""
    unsigned = F.lit(integrity.unsigned == "Accept")
    return F.when(F.col("hmac").isNull(), unsigned).otherwise(F.col("hmac") == seal(key, own_columns()))


def _part(name: str, column: Column) -> Column:
    if name == HEADERS:
        return _headers(column)
    return _counted(F.unix_micros(column).cast("string") if name in TIMES else column.cast("string"))


def _headers(headers: Column) -> Column:
    names = F.array_sort(F.map_keys(headers))
    pairs = F.transform(names, lambda name: F.concat(_counted(name), _counted(headers[name])))
    text = F.concat(F.size(headers).cast("string"), F.lit(";"), F.array_join(pairs, ""))
    return F.when(headers.isNull(), F.lit("-")).otherwise(text)


def _counted(text: Column) -> Column:
    return F.coalesce(F.concat(F.octet_length(text).cast("string"), F.lit(":"), text), F.lit("-"))
