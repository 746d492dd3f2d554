"""Seals as column expressions: see ``messagestore_core.seals``.

Keys are in the environment only: here, as in plans, a key is given as the variable that holds it.
"""

import os
from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.records import Integrity
from messagestore_core.seals import COLUMNS, EARLIER, HEADERS, RECORD, TIMES, prefix
from messagestore_core.store.errors import RunFailedError


def seal(key: str, columns: Mapping[str, Column]) -> Column:
    """The seal of a message: each of ``COLUMNS`` is given, of the types of ``messages``; of the key its variable."""
    return F.concat(F.lit(prefix(os.environ[key])), _hmac(key, columns))


def matches(keys: Sequence[str], given: Column, columns: Mapping[str, Column]) -> Column:
    """Whether a given seal is that of a message, by one of the keys, as in ``seal``; null without a seal."""
    earlier = (F.concat(F.lit(EARLIER), _hmac(key, columns)) for key in keys)
    matching = F.when(F.startswith(given, F.lit(EARLIER)), given.isin(*earlier))
    for key in keys:
        matching = matching.when(F.startswith(given, F.lit(prefix(os.environ[key]))), given == seal(key, columns))
    return F.when(given.isNotNull(), matching.otherwise(F.lit(False)))


def _hmac(key: str, columns: Mapping[str, Column]) -> Column:
    text = F.concat(*(_part(name, columns[name]) for name in COLUMNS))
    return F.call_function("messagestore.hmac_sha256", text.cast("binary"), F.lit(key))


def own_columns(prefix: str = "") -> dict[str, Column]:
    """The sealed columns of a row of ``messages``, for ``seal``."""
    return {name: F.col(f"{prefix}{name}") for name in COLUMNS}


def is_sealed(integrity: Integrity) -> Column:
    """Whether a row of ``messages`` matches its seal; an unsealed one by ``unsigned``.

    Raises:
        RunFailedError: a variable holds no key.
    """
    unsigned = F.lit(integrity.unsigned == "Accept")
    return F.coalesce(matches(keys_of(integrity), F.col("hmac"), own_columns()), unsigned)


def _part(name: str, column: Column) -> Column:
    if name == HEADERS:
        return _headers(column)
    if name == RECORD:
        return _record(column)
    return _counted(F.unix_micros(column).cast("string") if name in TIMES else column.cast("string"))


def _headers(headers: Column) -> Column:
    names = F.array_sort(F.map_keys(headers))
    pairs = F.transform(names, lambda name: F.concat(_counted(name), _counted(headers[name])))
    text = F.concat(F.size(headers).cast("string"), F.lit(";"), F.array_join(pairs, ""))
    return F.when(headers.isNull(), F.lit("-")).otherwise(text)


def _record(record: Column) -> Column:
    pairs = F.transform(
        record["headers"], lambda header: F.concat(_counted(header["name"]), _counted(F.sha2(header["value"], 256)))
    )
    text = F.concat(
        *(_counted(F.sha2(record[name], 256)) for name in ("key", "value")),
        _counted(record["value_is_payload"].cast("string")),
        F.concat(F.size(record["headers"]).cast("string"), F.lit(";"), F.array_join(pairs, "")),
        *(_counted(record[name].cast("string")) for name in ("timestamp", "timestamp_type")),
    )
    return F.when(record.isNull(), F.lit("")).otherwise(text)


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


def keys_of(integrity: Integrity) -> list[str]:
    """The variables with the keys of a stream's seals, the current one first.

    Raises:
        RunFailedError: one holds none.
    """
    return [key_of(integrity), *(held(one, "spec.integrity") for one in integrity.previous_environments)]
