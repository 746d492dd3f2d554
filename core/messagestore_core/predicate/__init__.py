"""A user's `where`, turned into something that is safe to run.

Spark SQL can call any Java method and read any path, so what a user writes never reaches Spark. It is parsed,
every part of it is held to an allow list, and `spark` makes columns of the checked parts: no text is parsed again.
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
