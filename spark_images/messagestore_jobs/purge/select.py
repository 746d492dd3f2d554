"""What the rules select at one table version."""

from dataclasses import dataclass
from datetime import date

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Rule
from messagestore_jobs.purge.applied import due
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.limits import bytes_edge, cap_floors
from messagestore_jobs.purge.rules import any_of, held, own_conditions, says_nothing, untold
from messagestore_jobs.purge.whole_days import whole_days
from messagestore_jobs.store.delta_log import files_of, open_table
from messagestore_jobs.store.matching import all_of
from messagestore_jobs.store.messages import read_messages

NARROW = (
    "global_position",
    "stream_name",
    "position",
    "status",
    "inserted_date",
    "time",
    "payload_size",
    "payload_uri",
)
"""The columns that a selection keeps of a message: never its contents."""


@dataclass(frozen=True)
class Selection:
    """Days that leave whole, and of all others a row a message that any rule selects; None where there can't be any.

    Rows are of NARROW with ``rules`` (names), ``erase``, ``held`` and ``untold``. Rows that are untold and selected by
    no rule are there to be counted only.
    """

    version: int
    days: tuple[date, ...]
    rows: DataFrame | None

    def going(self) -> DataFrame | None:
        """What would leave, besides whole days."""
        return None if self.rows is None else self.rows.where((F.size("rules") > 0) & ~F.col("held"))

    def release(self) -> None:
        """Give the memory back."""
        if self.rows is not None:
            self.rows.unpersist()


def select(context: Context) -> Selection:
    """Judge every message of the store's current version, and once; but for whole days, lazily."""
    table = open_table(context.uri, "messages")
    version = table.version()
    whole = whole_days(context.task, files_of(table), context.as_of)
    if not whole.others:
        return Selection(version, whole.days, None)
    messages = read_messages(context.spark, context.uri, version)
    if whole.days:
        messages = messages.where(~F.col("inserted_date").isin(*whole.days))
    return Selection(version, whole.days, _judged(context, messages).persist(StorageLevel.MEMORY_AND_DISK))


def _judged(context: Context, messages: DataFrame) -> DataFrame:
    keeps = held(context.task.holds, context.as_of)
    rules = [rule for rule in context.task.rules if not says_nothing(rule)]
    judged, conditions = messages, []
    for number, rule in enumerate(rules):
        judged, condition = _condition(judged, messages, rule, number, keeps, context)
        conditions.append(condition)
    fails = any_of([untold(rule, context.as_of) for rule in rules])
    if context.task.action == "Scrub" and context.task.scrub is not None:
        # A preview changes nothing, so that it also looks at a store without the column.
        judged = judged.where(due(context.task.scrub) if "scrubs" in judged.columns else F.lit(True))
    selected = judged.where(any_of([*conditions, fails]))
    flags = [F.coalesce(condition, F.lit(False)) for condition in conditions]
    return selected.select(
        *NARROW,
        _names(rules, flags).alias("rules"),
        any_of([flag for rule, flag in zip(rules, flags, strict=True) if rule.erase]).alias("erase"),
        keeps.alias("held"),
        fails.alias("untold"),
    )


def _names(rules: list[Rule], flags: list[Column]) -> Column:
    named = [F.when(flag, F.lit(rule.name)) for rule, flag in zip(rules, flags, strict=True)]
    return F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")


def _condition(
    judged: DataFrame, messages: DataFrame, rule: Rule, number: int, keeps: Column, context: Context
) -> tuple[DataFrame, Column]:
    """All of a rule as one condition, and the rows with what it needs beside them.

    The newest that a cap keeps are of the whole stream; bytes go by the oldest that meet everything else in the rule.
    """
    conditions = own_conditions(rule, context.as_of)
    if rule.max_messages_per_stream is not None:
        judged, past = _past_cap(judged, messages, rule.max_messages_per_stream, f"floor_{number}")
        conditions.append(past)
    if rule.max_bytes is not None:
        candidates = judged if rule.max_messages_per_stream is not None else messages
        edge = bytes_edge(candidates, all_of(conditions), keeps, rule.max_bytes)
        conditions.append(F.lit(False) if edge is None else edge.reaches())
    return judged, all_of(conditions)


def _past_cap(judged: DataFrame, messages: DataFrame, newest: int, name: str) -> tuple[DataFrame, Column]:
    floors = cap_floors(messages, newest).withColumnRenamed("floor", name)
    return judged.join(floors, "stream_name", "left"), F.col("position") <= F.col(name)
