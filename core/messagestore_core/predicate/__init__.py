"""A user's `where`, turned into something that is safe to run.

Spark SQL can call any Java method and read any path, so a user's text never reaches Spark. The text is parsed,
every part of it is checked against an allow list, and `spark` makes columns of the checked parts.
"""

from messagestore_core.predicate.columns import (
    DEAD_LETTER_COLUMNS,
    FILTER_COLUMNS,
    MESSAGE_COLUMNS,
    ColumnSet,
    Kind,
)
from messagestore_core.predicate.compiler import Predicate, compile_predicate
from messagestore_core.predicate.context import PredicateError, Refusal

__all__ = [
    "DEAD_LETTER_COLUMNS",
    "FILTER_COLUMNS",
    "MESSAGE_COLUMNS",
    "ColumnSet",
    "Kind",
    "Predicate",
    "PredicateError",
    "Refusal",
    "compile_predicate",
]
