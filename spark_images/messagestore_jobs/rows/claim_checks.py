"""Claim checks of rows, read and written by executors: see ``messagestore_core.store.claim_checks``."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.store.claim_checks import claim_check_pattern, claim_checks_uri

_A_TASK = 64
_MOST_TASKS = 1000


def is_own_claim_check(uri: str) -> Column:
    """Whether ``payload_uri`` is of a claim check of the store at a URI; false for null."""
    return F.coalesce(F.col("payload_uri").rlike(rf"\A{claim_check_pattern(uri)}\z"), F.lit(False))


def own_claim_check_name() -> Column:
    """The object's name in a ``payload_uri`` for which ``is_own_claim_check`` holds."""
    return F.substring_index("payload_uri", "/", -1)


def own_claim_check_uri(uri: str) -> Column:
    """The URI of that object, below the store at a URI."""
    return claim_check_uri(uri, own_claim_check_name())


def claim_check_uri(uri: str, name: Column) -> Column:
    """The URI of a claim check of a store, by its name."""
    return F.concat(F.lit(f"{claim_checks_uri(uri)}/"), name)


def claim_check_payload(uri: str, unsized: int = 0) -> Column:
    """The payload of a row's own claim check; null without one, and if the object doesn't exist.

    An object that is larger than ``payload_size`` (``unsized`` if that is null) is not ours and might not fit into
    memory: it is not read.
    """
    most = F.coalesce("payload_size", F.lit(unsized)).cast("bigint")
    return F.when(is_own_claim_check(uri), F.call_function("messagestore.read_object", own_claim_check_uri(uri), most))


def lacks_object(uri: str) -> Column:
    """Whether a row has a claim check of its own whose object doesn't exist."""
    exists = F.call_function("messagestore.has_object", own_claim_check_uri(uri))
    return F.when(is_own_claim_check(uri), ~exists).otherwise(F.lit(False))


def with_claim_check_payloads(rows: DataFrame, uri: str, count: int, unsized: int = 0) -> DataFrame:
    """Rows of ``messages`` with the payloads of their own claim checks, about ``count``, filled in.

    They have at least payload, payload_uri, payload_size and global_position.
    """
    own = is_own_claim_check(uri)
    filled = spread(rows.where(own), count).withColumn("payload", claim_check_payload(uri, unsized))
    return rows.where(~own).unionByName(filled)


def spread(rows: DataFrame, count: int) -> DataFrame:
    """Rows with claim checks in enough partitions: they lie close together, and each waits for the object storage."""
    return rows.repartition(min(_MOST_TASKS, 1 + count // _A_TASK), "global_position")


def write_claim_checks(rows: DataFrame) -> DataFrame:
    """Add column written: the bytes of an object with a row's ``uri`` and ``payload``, which its evaluation writes.

    It is null where the payload is, and nothing is written.
    """
    write = F.call_function("messagestore.write_object", "uri", "payload")
    return rows.select("*", F.when(F.col("payload").isNotNull(), write).alias("written"))
