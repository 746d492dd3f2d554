"""Payloads that lie outside the table, and whether any payload is still what was stored."""

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Integrity
from messagestore_jobs.integrity.columns import is_sealed
from messagestore_jobs.integrity.key import key_of
from messagestore_jobs.replay.source import Source
from messagestore_jobs.store.objects import Objects

_SCHEME_SLASHES = r"^file:/+"


def with_payloads(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with the payloads that their claim checks refer to; null where there is no such object.

    Of a message whose object is gone the newest row is taken: it was scrubbed since, or erased and has none.
    """
    filled, missing = _filled(rows, source)
    if not missing:
        return filled
    gone = F.coalesce(F.col("payload_uri").isin(*missing), F.lit(False))
    stale = rows.where(gone).select("global_position")
    newest = source.order.keyed(source.current()).join(stale, "global_position", "left_semi")
    return filled.where(~gone).unionByName(_filled(newest.select(*rows.columns), source)[0])


def is_sound(integrity: Integrity | None) -> Column:
    """Whether a row's payload is there and has the digest that was stored with it, and the row is as it was sealed.

    Raises:
        RunFailedError: the stream seals its messages, and the key is not there.
    """
    payload, digest = F.col("payload"), F.col("payload_sha256")
    whole = F.when(payload.isNull(), F.col("payload_uri").isNull()).otherwise(
        digest.isNull() | (F.sha2(payload, 256) == digest)
    )
    if integrity is None:
        return whole
    # Where the digest is sealed, none is no excuse for another payload.
    return whole & (payload.isNull() | digest.isNotNull()) & is_sealed(integrity, key_of(integrity))


def _is_there(uri: str) -> bool:
    folder, _, name = uri.rpartition("/")
    return Objects(folder).exists(name)


def _filled(rows: DataFrame, source: Source) -> tuple[DataFrame, list[str]]:
    """The rows with their payloads, and the URIs at which there is no object."""
    claimed = rows.where(F.col("payload_uri").isNotNull())
    uris = [row[0] for row in claimed.select("payload_uri").distinct().toLocalIterator()]
    missing = [uri for uri in uris if not _is_there(uri)]
    there = sorted(set(uris) - set(missing))
    if there:
        at_uri = _local_form("payload_uri") == F.col("_at")
        claimed = claimed.drop("payload").join(_objects(source, there), at_uri, "left")
    return rows.where(F.col("payload_uri").isNull()).unionByName(claimed.select(*rows.columns)), missing


def _objects(source: Source, uris: list[str]) -> DataFrame:
    reader = source.spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    files = reader.load([_without_globs(uri) for uri in uris])
    return files.select(_local_form("path").alias("_at"), F.col("content").alias("payload"))


def _local_form(column: str) -> Column:
    """A local file has more than one spelling: file:/a, file:///a and /a."""
    return F.regexp_replace(column, _SCHEME_SLASHES, "/")


def _without_globs(uri: str) -> str:
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)
