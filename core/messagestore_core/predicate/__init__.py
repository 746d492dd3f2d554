"""A user's ``where``, turned into something that is safe to run.

Spark SQL can call any Java method and read any path, so a user's text never reaches Spark. The parser knows a small
language of its own and checks each part as it reads it; ``spark`` makes columns of the checked parts.
"""

from messagestore_core.predicate.columns import (
    DEAD_LETTER_COLUMNS,
    FILTER_COLUMNS,
    MESSAGE_COLUMNS,
    SUBSCRIPTION_COLUMNS,
    ColumnSet,
    Kind,
)
from messagestore_core.predicate.parser import Predicate, compile_predicate
from messagestore_core.predicate.refusal import PredicateError, Refusal

__all__ = [
    "DEAD_LETTER_COLUMNS",
    "FILTER_COLUMNS",
    "MESSAGE_COLUMNS",
    "SUBSCRIPTION_COLUMNS",
    "ColumnSet",
    "Kind",
    "Predicate",
    "PredicateError",
    "Refusal",
    "compile_predicate",
]
