"""Claim checks of purged and scrubbed messages."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.store.claim_checks import claim_check_suffix
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.layout import CLAIM_CHECKS, REWRITTEN_NOTE
from messagestore_core.store.objects import sum_of
from messagestore_core.store.purges import Plan
from messagestore_jobs.context import PurgeRun, Run
from messagestore_jobs.rows.claim_checks import (
    claim_check_payload,
    is_own_claim_check,
    own_claim_check_name,
    own_claim_check_uri,
    spread,
    with_claim_check_payloads,
    write_claim_checks,
)
from messagestore_jobs.rows.messages import read_messages

REWRITTEN = "global_position bigint, new_uri string, new_size bigint, new_sha256 string"
"""A scrubbed payload's new object; all null if nothing of the payload is left."""
_AT_ONCE = 16
_DELETED_TOGETHER = 1000


def delete_claim_checks(context: PurgeRun, rows: DataFrame) -> None:
    """Delete the store's own objects of erased or scrubbed rows.

    Those of other purged rows stay as long as files of the table refer to them: see ``maintain.sweep``.
    """
    own = rows.where(is_own_claim_check(context.uri)).select(own_claim_check_name().alias("name")).toLocalIterator()
    _delete(context, (row["name"] for row in own))


def delete_orphan_claim_checks(context: Run) -> set[str]:
    """Delete objects in the folder of claim checks that no message refers to; earlier versions are gone.

    Return the names that messages refer to; none if the folder was empty.
    """
    objects = context.store.objects(CLAIM_CHECKS)
    names = [name for name in objects.names(recursive=True) if not name.endswith("/")]
    if not names:
        return set()
    rows = read_messages(context.spark, context.store).where(is_own_claim_check(context.uri))
    referenced = {row["name"] for row in rows.select(own_claim_check_name().alias("name")).collect()}
    _delete(context, (name for name in names if sum_of(name) not in referenced))
    return referenced


def rewrite_claim_checks(
    context: PurgeRun, plan: Plan, rows: DataFrame, scrub: Callable[[Column], Column]
) -> DataFrame:
    """Write a scrubbed copy beside each object of the rows; return columns REWRITTEN, from a note beside the plan.

    Objects and note have the names of this run, so that no fenced run can change those of a newer one.

    Args:
        rows: with global_position, payload_size, payload_uri and scrubs, as the table has them. An object that is
            larger than its payload is not ours, and counts as missing.
        scrub: makes the new payload of the old one, by column ``scrubs``.

    Raises:
        RunFailedError: the note lacks some of the rows.
    """
    own = rows.where(is_own_claim_check(context.uri))
    count = own.count()
    if not count:
        return context.spark.createDataFrame([], REWRITTEN)
    suffix = claim_check_suffix(context.run, context.store.epoch)
    old = spread(own, count).withColumn("old", claim_check_payload(context.uri))
    uri = F.concat(own_claim_check_uri(context.uri), F.lit(f"-{suffix}")).alias("uri")
    written = write_claim_checks(old.select("global_position", uri, scrub(F.col("old")).alias("payload"))).select(
        "global_position",
        F.when(F.col("written").isNotNull(), F.col("uri")).alias("new_uri"),
        F.col("written").alias("new_size"),
        F.sha2("payload", 256).alias("new_sha256"),
    )
    to = context.store.path(plan.folder, f"{REWRITTEN_NOTE}{suffix}")
    with context.store.step("claim-check-rewrite"):
        written.write.mode("overwrite").parquet(to)
    noted = context.spark.read.schema(REWRITTEN).parquet(to)
    if noted.count() != count:
        raise RunFailedError(
            "CommitLost", f"{to} does not name the {count} claim checks that it was to name; try again"
        )
    return noted


def with_payloads_inside(context: PurgeRun, messages: DataFrame, rows: DataFrame) -> DataFrame:
    """The messages with payloads of claim checks in place of their URIs. ``rows`` are their frozen rows."""
    own = (
        rows.where(is_own_claim_check(context.uri))
        .agg(F.count("*").alias("claims"), F.max("payload_size").alias("largest"))
        .collect()[0]
    )
    if not own["claims"]:
        return messages
    filled = with_claim_check_payloads(messages, context.uri, own["claims"], own["largest"] or 0)
    return filled.withColumn("payload_uri", F.when(F.col("payload").isNull(), F.col("payload_uri")))


def _delete(context: Run, names: Iterator[str]) -> None:
    """Delete claim checks, several at once; only the names of some are held."""
    objects = context.store.objects(CLAIM_CHECKS)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while some := list(islice(names, _DELETED_TOGETHER)):
            context.between_commits()
            with context.store.step("claim-check-delete"):
                list(pool.map(objects.delete, some))
