"""Payloads that lie outside the table, and whether any payload is still what was stored."""

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.replay.source import Source
from messagestore_jobs.store.objects import Objects

_SCHEME_SLASHES = r"^file:/+"


def with_payloads(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with the payloads that their claim checks refer to; null where there is no such object.

    A message whose object is missing and that is no longer in the store was erased: it is left out.
    """
    claimed = rows.where(F.col("payload_uri").isNotNull())
    uris = [row[0] for row in claimed.select("payload_uri").distinct().toLocalIterator()]
    missing = [uri for uri in uris if not _is_there(uri)]
    there = sorted(set(uris) - set(missing))
    erased = sorted(set(missing) - _referred_to(source, missing))
    if erased:
        claimed = claimed.where(~F.col("payload_uri").isin(*erased))
    if there:
        claimed = claimed.drop("payload").join(
            _objects(source, there), _local_form("payload_uri") == F.col("_at"), "left"
        )
    return rows.where(F.col("payload_uri").isNull()).unionByName(claimed.select(*rows.columns))


def is_sound() -> Column:
    """Whether a row's payload is there and has the digest that was stored with it."""
    payload, digest = F.col("payload"), F.col("payload_sha256")
    return F.when(payload.isNull(), F.col("payload_uri").isNull()).otherwise(
        digest.isNull() | (F.sha2(payload, 256) == digest)
    )


def _is_there(uri: str) -> bool:
    folder, _, name = uri.rpartition("/")
    return Objects(folder).exists(name)


def _referred_to(source: Source, uris: list[str]) -> set[str]:
    if not uris:
        return set()
    rows = source.current().where(F.col("payload_uri").isin(*uris)).select("payload_uri").collect()
    return {row[0] for row in rows}


def _objects(source: Source, uris: list[str]) -> DataFrame:
    reader = source.spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    files = reader.load([_without_globs(uri) for uri in uris])
    return files.select(_local_form("path").alias("_at"), F.col("content").alias("payload"))


def _local_form(column: str) -> Column:
    """A local file has more than one spelling: file:/a, file:///a and /a."""
    return F.regexp_replace(column, _SCHEME_SLASHES, "/")


def _without_globs(uri: str) -> str:
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)
