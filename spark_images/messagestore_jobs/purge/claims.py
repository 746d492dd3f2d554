"""Claim checks: payloads that lie in objects of their own."""

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
"""A scrubbed payload's new object; all of it null where nothing of the payload stayed."""


def delete_claim_checks(context: PurgeRun, rows: DataFrame) -> None:
    """Delete the store's own objects that rows referred to which were erased or scrubbed.

    Those of other rows that leave stay for as long as files of the table name them: see ``maintain.sweep``.
    """
    objects = context.store.objects(CLAIMS)
    for row in _claimed(context, rows):
        with external_write("claim-check-delete"):
            objects.delete(row["name"])


def drop_unclaimed(context: Run) -> set[str]:
    """Delete what lies among the store's claim checks and no message refers to; earlier versions are gone.

    Returns:
        The names that messages refer to; none where nothing lay there.
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
    """Write a scrubbed copy beside each object of the rows, one at a time; columns REWRITTEN.

    Args:
        context: of the run.
        rows: with global_position, payload_size, payload_uri and scrubs, as the table has them. An object that is
            longer than its payload was put there by somebody else, and counts as none.
        suffix: what is added to the objects' names.
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
    """The messages with their claim-checked payloads in them. ``rows`` are the frozen rows that they are of."""
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
    """The claim checks of the store that rows refer to; what names another place is none."""
    own = rows.where(is_own_claim(context.uri))
    return own.select("global_position", own_claim_name().alias("name"), *others).collect()


def _apply(
    context: PurgeRun, payload: bytearray, scrubs: list[str] | None, scrub: Callable[[Column], Column]
) -> bytes | None:
    rows = context.spark.createDataFrame([(payload, scrubs)], "payload binary, scrubs array<string>")
    new = rows.select(scrub(F.col("payload")).alias("new")).collect()[0]["new"]
    return None if new is None else bytes(new)
