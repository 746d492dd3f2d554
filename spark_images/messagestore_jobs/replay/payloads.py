"""Payloads that lie outside the table, and whether any payload is still what was stored."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Integrity
from messagestore_jobs.integrity import is_sealed, key_of
from messagestore_jobs.replay.source import Source
from messagestore_jobs.store.claimed import claimed_objects, is_own_claim, own_claim_name
from messagestore_jobs.store.claims import claims_uri
from messagestore_jobs.store.objects import Objects


def with_payloads(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with the payloads that their claim checks refer to; null where there is no such object of the store.

    Of a message whose object is gone the newest row is taken, where there is one: it was scrubbed since.
    """
    filled, missing = _filled(rows, source)
    if not missing:
        return filled
    gone = is_own_claim(source.uri) & own_claim_name().isin(*missing)
    stale = rows.where(gone).select("global_position")
    newest = source.order.keyed(source.current()).join(stale, "global_position", "left_semi")
    left = filled.where(gone).join(newest.select("global_position"), "global_position", "left_anti")
    scrubbed = _filled(newest.select(*rows.columns), source)[0]
    return filled.where(~gone).unionByName(scrubbed).unionByName(left.select(*rows.columns))


def is_sound(uri: str, integrity: Integrity | None) -> Column:
    """Whether a row's payload is there and has the digest that was stored with it, and the row is as it was sealed.

    Under a claim check of the store in this folder, a payload has the size that was stored with it, too.

    Raises:
        RunFailedError: the stream seals its messages, and the key is not there.
    """
    payload, digest = F.col("payload"), F.col("payload_sha256")
    same = F.coalesce(F.sha2(payload, 256) == digest, F.lit(False))
    as_long = F.coalesce(F.octet_length(payload) == F.col("payload_size"), F.lit(False))
    whole = F.when(F.col("payload_uri").isNotNull(), is_own_claim(uri) & same & as_long).otherwise(
        payload.isNull() | digest.isNull() | same
    )
    if integrity is None:
        return whole
    # Where the digest is sealed, none is no excuse for another payload.
    return whole & (payload.isNull() | digest.isNotNull()) & is_sealed(integrity, key_of(integrity))


def _filled(rows: DataFrame, source: Source) -> tuple[DataFrame, list[str]]:
    """The rows with their payloads, and the names of the claim checks that are not there."""
    own = is_own_claim(source.uri)
    claimed = rows.where(own)
    found = claimed.select(own_claim_name().alias("name"), "payload_size").distinct().toLocalIterator()
    sizes: dict[str, int] = {row["name"]: row["payload_size"] or 0 for row in found}
    objects = Objects(claims_uri(source.uri))
    there = {name: size for name, size in sizes.items() if objects.exists(name)}
    if there:
        contents = claimed_objects(source.spark, source.uri, there).withColumnRenamed("_content", "payload")
        claimed = claimed.drop("payload").join(contents, own_claim_name() == F.col("_name"), "left")
    return rows.where(~own).unionByName(claimed.select(*rows.columns)), list(sizes.keys() - there.keys())
