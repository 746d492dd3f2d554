"""Which Spark settings the runs of a resource may have."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from messagestore_operator.api.spark import Spark
from messagestore_operator.translate.refusal import RefusedField


def conf_not_allowed(spark: Spark, allowed: Collection[str] | None) -> Iterator[RefusedField]:
    """The Spark settings of a resource that are not in ``allowed``; None allows all that its definition lists."""
    for name in spark.conf:
        if allowed is not None and name not in allowed:
            words = "is none of the Spark settings that the operator's settings allow (tenancy.conf)"
            yield RefusedField(("spec", "spark", "conf", name), words)
