"""A user's predicate, checked and written as Spark SQL."""

from dataclasses import dataclass

from messagestore_jobs.predicate import atoms, calls, conditions, values
from messagestore_jobs.predicate.columns import MESSAGE_COLUMNS, ColumnSet
from messagestore_jobs.predicate.context import Context
from messagestore_jobs.predicate.parser import parse
from messagestore_jobs.predicate.refusals import PredicateError

_RULES = {**atoms.RULES, **conditions.RULES, **values.RULES, **calls.RULES}


@dataclass(frozen=True)
class Predicate:
    """A predicate that may run.

    `text` is what the user wrote. `sql` is the condition, `columns` what it reads. `failure_sql` is true for
    a record on which the condition could not be told: its result is NULL and something in it failed (a CAST,
    a calculation, json() on bytes that are no JSON). Both must hold: a part that failed behind a CASE or
    beside a false AND has not changed the result, and a NULL alone is an absent value, which selects nothing.
    """

    text: str
    sql: str
    failure_sql: str
    columns: frozenset[str]


def compile_predicate(text: str, columns: ColumnSet = MESSAGE_COLUMNS) -> Predicate:
    """Check `text` and write it anew for Spark; PredicateError says what is refused and why.

    The SQL is meant for a session in UTC. Nothing in it is left to Spark's implicit conversions, and what
    cannot be evaluated is NULL.
    """
    tree = parse(text)
    context = Context(columns, _RULES)
    try:
        sql = context.condition(tree, "a predicate must be a condition").sql
    except RecursionError:
        raise PredicateError.of(text, "is nested too deeply") from None
    if context.refusals:
        raise PredicateError(context.refusals)
    failures = " OR ".join(context.failures)
    return Predicate(
        text=text,
        sql=sql,
        failure_sql=f"({sql} IS NULL AND ({failures}))" if failures else "false",
        columns=frozenset(context.columns_read),
    )
