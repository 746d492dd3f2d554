"""Claim checks: payloads that lie in objects of their own."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.plan import Plan, frozen_rows
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import Objects

_GLOB = re.compile(r"([\\*?\[\]{}])")

REWRITTEN = "global_position bigint, new_uri string, new_size bigint, new_sha256 string"
"""A scrubbed payload's new object; all of it null where nothing of the payload stayed."""


def delete_claim_checks(context: Context, plan: Plan) -> None:
    """Delete the objects that the frozen rows referred to, once no row does."""
    if not plan.rows and not plan.claims:
        return
    for row in _claimed(frozen_rows(context, plan)):
        objects, name = _object(row["payload_uri"])
        with external_write("claim-check-delete"):
            objects.delete(name)


def rewrite_claim_checks(
    context: Context, rows: DataFrame, suffix: str, scrub: Callable[[Column], Column]
) -> DataFrame:
    """Write a scrubbed copy beside each object of the rows, one at a time; columns REWRITTEN.

    A row whose object is gone has been scrubbed already; the row is passed over later on.
    """
    found: list[tuple[Any, ...]] = []
    for row in _claimed(rows):
        objects, name = _object(row["payload_uri"])
        payload = objects.read(name)
        if payload is None:
            continue
        new = _apply(context, bytearray(payload), scrub)
        if new is not None:
            with external_write("claim-check-rewrite"):
                objects.write(f"{name}-{suffix}", new)
            uri = f"{row['payload_uri']}-{suffix}"
            found.append((row["global_position"], uri, len(new), hashlib.sha256(new).hexdigest()))
    return context.spark.createDataFrame(found, REWRITTEN)


def with_claimed_payloads(context: Context, messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages with their claim-checked payloads in them. ``rows`` are the frozen rows that they are of."""
    uris = [row["payload_uri"] for row in _claimed(rows)]
    if not uris:
        return messages
    reader = context.spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    files = reader.load([_GLOB.sub(r"\\\1", uri) for uri in uris])
    objects = files.select(_spelled("path").alias("_at"), F.col("content").alias("_content"))
    found = messages.join(objects, _spelled("payload_uri") == F.col("_at"), "left")
    inside = {
        "payload": F.coalesce("payload", "_content"),
        "payload_uri": F.when(F.col("_content").isNull(), F.col("payload_uri")),
    }
    return found.select(*(inside.get(name, F.col(name)).alias(name) for name in messages.columns))


def _spelled(column: str) -> Column:
    """A local file has more than one spelling: file:/a, file:///a and /a."""
    return F.regexp_replace(column, "^file:/+", "/")


def _claimed(rows: DataFrame) -> Any:
    return rows.where("payload_uri is not null").select("global_position", "payload_uri").collect()


def _object(uri: str) -> tuple[Objects, str]:
    folder, _, name = uri.rpartition("/")
    return Objects(folder), name


def _apply(context: Context, payload: bytearray, scrub: Callable[[Column], Column]) -> bytes | None:
    rows = context.spark.createDataFrame([(payload,)], "payload binary").select(scrub(F.col("payload")).alias("new"))
    new = rows.collect()[0]["new"]
    return None if new is None else bytes(new)
