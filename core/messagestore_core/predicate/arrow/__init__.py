"""A checked predicate on rows in Arrow's memory: the same answers as Spark's, without Spark.

Types, conversions and rounding are those of Spark with ``spark.sql.ansi.enabled`` off and the session in UTC. A fuzz
test holds both against each other.
"""

from messagestore_core.predicate.arrow.engine import chosen, evaluate, refusal_of
from messagestore_core.predicate.arrow.times import microseconds_of
from messagestore_core.predicate.arrow.values import NotExactError

__all__ = ["NotExactError", "chosen", "evaluate", "microseconds_of", "refusal_of"]
