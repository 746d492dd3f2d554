"""The seal of a message, as column expressions. It covers ``COLUMNS``: all that never changes but by Scrub.

A seal is ``v1=`` and the HMAC-SHA256, in hex, of the concatenated values: each its length in bytes, ``:`` and its text
in UTF-8, or ``-`` for null. Numbers are decimal, times in microseconds since 1970, booleans true or false; headers are
their number and ``;``, then names and values in the order of the names' bytes. Size and SHA-256 cover the payload. The
seal does not cover lifecycle columns and ``payload_uri``.

Keys are in the environment only: here, as in plans, a key is given as the variable that holds it.
"""

import os
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core import envelope
from messagestore_core.contract.records import Integrity
from messagestore_core.store.errors import RunFailedError

PREFIX = "v1="
_SEALED = {field.column: field.type for field in envelope.COLUMNS if field.sealed}
TEXTS = tuple(column for column, kind in _SEALED.items() if kind == "string")
NUMBERS = tuple(column for column, kind in _SEALED.items() if kind in ("bigint", "int", "boolean"))
TIMES = tuple(column for column, kind in _SEALED.items() if kind == "timestamp")
HEADERS = "headers"
COLUMNS = (*TEXTS, *NUMBERS, *TIMES, HEADERS)


def seal(key: str, columns: Mapping[str, Column]) -> Column:
    """The seal of a message.

    Args:
        key: the variable that holds it.
        columns: each of ``COLUMNS``, of the types of ``messages``.
    """
    text = F.concat(*(_part(name, columns[name]) for name in COLUMNS))
    return F.concat(F.lit(PREFIX), F.call_function("messagestore.hmac_sha256", text.cast("binary"), F.lit(key)))


def own_columns(prefix: str = "") -> dict[str, Column]:
    """The sealed columns of a row of ``messages``, for ``seal``."""
    return {name: F.col(f"{prefix}{name}") for name in COLUMNS}


def is_sealed(integrity: Integrity, key: str) -> Column:
    """Whether a row of ``messages`` matches its seal; an unsealed one by ``unsigned``."""
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


def held(variable: str | None, what: str) -> str:
    """Return the variable, which functions of the Spark extension get in place of the key.

    Raises:
        RunFailedError: it holds no key, and ``what`` needs one.
    """
    if not variable or not os.environ.get(variable):
        raise RunFailedError("MissingKey", f"{what} needs a key, and {variable} holds none")
    return variable


def key_of(integrity: Integrity) -> str:
    """The variable with the key of a stream's seals.

    Raises:
        RunFailedError: it holds none.
    """
    return held(integrity.key_environment, "spec.integrity")
