"""Claim checks of purged and scrubbed messages."""

import hashlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.store.claims import CLAIMS
from messagestore_core.store.external import external_write
from messagestore_core.store.objects import join, sum_of
from messagestore_jobs.context import Run
from messagestore_jobs.purge.plan import PurgeRun
from messagestore_jobs.rows.messages import claimed_objects, is_own_claim, own_claim_name, read_messages

REWRITTEN = "global_position bigint, new_uri string, new_size bigint, new_sha256 string"
"""A scrubbed payload's new object; all null if nothing of the payload is left."""


def delete_claim_checks(context: PurgeRun, rows: DataFrame) -> None:
    """Delete the store's own objects of erased or scrubbed rows.

    Those of other purged rows stay as long as files of the table refer to them: see ``maintain.sweep``.
    """
    objects = context.store.objects(CLAIMS)
    for row in _claimed(context, rows):
        with external_write("claim-check-delete"):
            objects.delete(row["name"])


def drop_unclaimed(context: Run) -> set[str]:
    """Delete objects in the folder of claim checks that no message refers to; earlier versions are gone.

    Returns:
        The names that messages refer to; empty if the folder was empty.
    """
    objects = context.store.objects(CLAIMS)
    found = [name for name in objects.names(recursive=True) if not name.endswith("/")]
    if not found:
        return set()
    rows = read_messages(context.spark, context.store).where(is_own_claim(context.uri))
    claimed = {row["name"] for row in rows.select(own_claim_name().alias("name")).collect()}
    for name in found:
        if sum_of(name) not in claimed:
            with external_write("claim-check-delete"):
                objects.delete(name)
    return claimed


def rewrite_claim_checks(
    context: PurgeRun, rows: DataFrame, suffix: str, scrub: Callable[[Column], Column]
) -> DataFrame:
    """Write a scrubbed copy beside each object of the rows, one at a time; return columns REWRITTEN.

    Args:
        context: of the run.
        rows: with global_position, payload_size, payload_uri and scrubs, as the table has them. An object that is
            larger than its payload is not ours, and counts as missing.
        suffix: added to the objects' names.
        scrub: makes the new payload of the old one, by column ``scrubs``.
    """
    found: list[tuple[Any, ...]] = []
    objects = context.store.objects(CLAIMS)
    for row in _claimed(context, rows, "payload_size", "scrubs"):
        name = row["name"]
        size = row["payload_size"] or 0
        payload = objects.read_first(name, size + 1)
        if payload is None or len(payload) > size:
            continue
        new = _apply(context, bytearray(payload), row["scrubs"], scrub)
        if new is not None:
            with external_write("claim-check-rewrite"):
                objects.write(f"{name}-{suffix}", new)
            uri = join(objects.uri, f"{name}-{suffix}")
            found.append((row["global_position"], uri, len(new), hashlib.sha256(new).hexdigest()))
    return context.spark.createDataFrame(found, REWRITTEN)


def with_claimed_payloads(context: PurgeRun, messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages with payloads of claim checks filled in. ``rows`` are their frozen rows."""
    sizes = {row["name"]: row["payload_size"] or 0 for row in _claimed(context, rows, "payload_size")}
    if not sizes:
        return messages
    own = is_own_claim(context.uri) & (own_claim_name() == F.col("_name"))
    found = messages.join(claimed_objects(context.spark, context.store, sizes), own, "left")
    inside = {
        "payload": F.coalesce("payload", "_content"),
        "payload_uri": F.when(F.col("_content").isNull(), F.col("payload_uri")),
    }
    return found.select(*(inside.get(name, F.col(name)).alias(name) for name in messages.columns))


def _claimed(context: PurgeRun, rows: DataFrame, *others: str) -> Any:
    """The claim checks that rows refer to, without those outside the store."""
    own = rows.where(is_own_claim(context.uri))
    return own.select("global_position", own_claim_name().alias("name"), *others).collect()


def _apply(
    context: PurgeRun, payload: bytearray, scrubs: list[str] | None, scrub: Callable[[Column], Column]
) -> bytes | None:
    rows = context.spark.createDataFrame([(payload, scrubs)], "payload binary, scrubs array<string>")
    new = rows.select(scrub(F.col("payload")).alias("new")).collect()[0]["new"]
    return None if new is None else bytes(new)
