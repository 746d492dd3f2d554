"""Claim checks as Spark reads them; see ``claims``."""

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs.store.claims import claim_pattern, claims_uri
from messagestore_jobs.store.objects import join

_GLOB = re.compile(r"([\\*?\[\]{}])")


def is_own_claim(uri: str) -> Column:
    """Whether ``payload_uri`` names a claim check of the store in a folder; false where it is null."""
    return F.coalesce(F.col("payload_uri").rlike(rf"\A{claim_pattern(uri)}\z"), F.lit(False))


def own_claim_name() -> Column:
    """The name in a ``payload_uri`` that :func:`is_own_claim`."""
    return F.substring_index("payload_uri", "/", -1)


def claimed_objects(spark: SparkSession, uri: str, sizes: Mapping[str, int]) -> DataFrame:
    """The claim checks of these names that are there: columns _name string and _content binary.

    Args:
        spark: reads them.
        uri: of the store's folder.
        sizes: of the payloads in bytes, by name. What is longer than all of them was put there by somebody else and
            may be longer than memory: it is not read, and has no row.
    """
    folder = claims_uri(uri)
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    files = reader.load([_GLOB.sub(r"\\\1", join(folder, name)) for name in sorted(sizes)])
    files = files.where(F.col("length") <= max(sizes.values(), default=0))
    return files.select(F.substring_index("path", "/", -1).alias("_name"), F.col("content").alias("_content"))
