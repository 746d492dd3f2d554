"""Rules and holds as conditions over the columns of ``messages``."""

from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Hold, Match, Rule
from messagestore_jobs.store.matching import all_of, matches, undecided


def age() -> Column:
    """The time that a message's age is counted from: a time in the future keeps nothing for ever."""
    return F.least("time", "inserted_at")


def before(moment: datetime) -> Column:
    """Whether a message is older than ``moment``; comparisons with columns alone, which file statistics can answer."""
    return (F.col("time") < F.lit(moment)) | (F.col("inserted_at") < F.lit(moment))


def own_conditions(rule: Rule, as_of: datetime) -> list[Column]:
    """What a rule asks of a message by itself: all but the two limits that look at other messages too."""
    found = []
    if rule.expired:
        found.append(F.col("expires_at") <= F.lit(as_of))
    if rule.statuses:
        found.append(F.col("status").isin(*rule.statuses))
    if rule.max_age is not None:
        found.append(before(as_of - rule.max_age))
    if rule.truncate_before is not None:
        found.append(F.col("stream_name") == F.lit(rule.truncate_before.stream_name))
        found.append(F.col("position") < F.lit(rule.truncate_before.position))
    if rule.match is not None and rule.match != Match():
        found.append(matches(rule.match))
    return found


def says_nothing(rule: Rule) -> bool:
    """Whether a rule has no condition at all; such a rule selects nothing, not everything."""
    empty = Rule(name=rule.name, erase=rule.erase)
    return rule == empty or rule == empty.model_copy(update={"match": Match()})


def untold(rule: Rule, as_of: datetime) -> Column:
    """Whether all else in a rule holds for a message and its ``where`` could not be told; such a message stays."""
    if rule.match is None or rule.match.where is None:
        return F.lit(False)
    others = own_conditions(rule.model_copy(update={"match": None}), as_of)
    return F.coalesce(all_of([*others, undecided(rule.match)]), F.lit(False))


def held(holds: tuple[Hold, ...], as_of: datetime) -> Column:
    """Whether a hold that is in force covers a message; one that could not be told on it does."""
    conditions = [
        F.coalesce(matches(hold.match), F.lit(False)) | undecided(hold.match)
        for hold in holds
        if hold.until is None or hold.until > as_of
    ]
    return any_of(conditions)


def any_of(conditions: list[Column]) -> Column:
    """Any of them, false where there is none."""
    return reduce(or_, conditions) if conditions else F.lit(False)
