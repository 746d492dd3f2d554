"""Which messages a rule, hold or selection matches: conditions over the columns of ``messages``, and times in them."""

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.purge import MATCH_LISTS, Match
from messagestore_core.predicate import MESSAGE_COLUMNS, ColumnSet, Predicate, PredicateError, compile_predicate
from messagestore_core.predicate.spark import condition, failure
from messagestore_core.store.errors import RunFailedError


def compiled(where: str, columns: ColumnSet = MESSAGE_COLUMNS, field: str = "match.where") -> Predicate:
    """The checked predicate of a field.

    Raises:
        RunFailedError: it is refused; the message says which part and why.
    """
    try:
        return compile_predicate(where, columns)
    except PredicateError as error:
        raise RunFailedError("PredicateRefused", f"{field}: {error}") from error


def matches(match: Match) -> Column:
    """True for a message that matches all given fields, null or false for others; without fields true for all.

    It may be null, so that a filter with it has plain comparisons, which prune files by statistics. Coalesce it where
    null must count as false.
    """
    conditions = _field_conditions(match)
    if match.where is not None:
        conditions.append(condition(compiled(match.where)))
    return all_of(conditions)


def undecided(match: Match) -> Column:
    """True for a message that matches all other fields, and on which ``where`` could not be evaluated.

    Payloads of claim checks are not read, so a ``where`` that depends on one can't be evaluated.
    """
    if match.where is None:
        return F.lit(False)
    predicate = compiled(match.where)
    failed = failure(predicate)
    if "payload" in predicate.columns:
        unseen = F.col("payload_uri").isNotNull() & condition(predicate).isNull()
        failed = F.coalesce(failed, F.lit(False)) | unseen
    return F.coalesce(all_of([*_field_conditions(match), failed]), F.lit(False))


def all_of(conditions: Iterable[Column]) -> Column:
    """All of the conditions; true without any."""
    return reduce(and_, conditions, F.lit(True))


def _field_conditions(match: Match) -> list[Column]:
    lists = [F.col(column).isin(*values) for name, column in MATCH_LISTS.items() if (values := getattr(match, name))]
    # Names and values of headers are compared exactly.
    return [*lists, *(F.col("headers")[F.lit(name)] == F.lit(value) for name, value in match.headers.items())]


def instant(moment: datetime) -> Column:
    """A moment with a time zone as a literal, which also prunes files by statistics.

    No time of a row becomes a ``datetime`` by Spark, which takes it in the process' time zone.
    ``F.lit`` would make a ``java.sql.Timestamp``, whose days before 1582-10-15 are of the Julian calendar.
    """
    return F.expr(f"timestamp '{moment.isoformat()}'")
