"""A user's predicate, checked."""

from dataclasses import dataclass

from messagestore_jobs.predicate import atoms, calls, conditions, values
from messagestore_jobs.predicate.columns import MESSAGE_COLUMNS, ColumnSet
from messagestore_jobs.predicate.context import Context
from messagestore_jobs.predicate.expression import FALSE, Expression, call, size
from messagestore_jobs.predicate.parser import parse
from messagestore_jobs.predicate.refusals import PredicateError

_RULES = {**atoms.RULES, **conditions.RULES, **values.RULES, **calls.RULES}


MAX_SIZE = 20_000


@dataclass(frozen=True)
class Predicate:
    """A predicate that may run.

    `text` is what the user wrote, `columns` what it reads. `failure` is true for a record on which `condition`
    could not be told: its result is NULL and something in it failed (a CAST, a calculation, json() on bytes that
    are no JSON). Both must hold: a part that failed behind a CASE or beside a false AND has not changed the
    result, and a NULL alone is an absent value, which selects nothing.
    """

    text: str
    condition: Expression
    failure: Expression
    columns: frozenset[str]


def compile_predicate(text: str, columns: ColumnSet = MESSAGE_COLUMNS) -> Predicate:
    """Check `text` and make of it what Spark is told; PredicateError says what is refused and why.

    It is meant for a session in UTC. Nothing in it is left to Spark's implicit conversions, and what cannot be
    evaluated is NULL.
    """
    tree = parse(text)
    context = Context(columns, _RULES)
    try:
        condition = context.condition(tree, "a predicate must be a condition").expression
    except RecursionError:
        raise PredicateError.of(text, "is nested too deeply") from None
    if context.refusals:
        raise PredicateError(context.refusals)
    failures = tuple(context.failures)
    failure = call("AND", call("IS NULL", condition), call("OR", *failures)) if failures else FALSE
    if size(condition) + size(failure) > MAX_SIZE:
        raise PredicateError.of(text, "grows too large, as nested parts of it are asked again and again")
    return Predicate(text=text, condition=condition, failure=failure, columns=frozenset(context.columns_read))
