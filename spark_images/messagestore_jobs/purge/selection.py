"""What the rules select at one table version, and its summary: the preview; or one by one, as a listing."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.clock import from_microseconds
from messagestore_core.contract.purge import Preview, PurgeTask, Rule
from messagestore_core.store.delta_log import files_of
from messagestore_core.store.folder import exists, store_id
from messagestore_core.store.statistics import complete
from messagestore_jobs.context import PurgeRun, Run
from messagestore_jobs.purge.consumers import Consumers, consumers_of
from messagestore_jobs.purge.rules import any_of, bytes_edge, cap_floors, held, own_conditions, says_nothing, unknown
from messagestore_jobs.purge.scrub import is_due
from messagestore_jobs.purge.whole_days import TIMES, count_days, whole_days
from messagestore_jobs.rows.matching import all_of
from messagestore_jobs.rows.messages import read_messages

NARROW = (
    *("global_position", "stream_name", "position", "status", "inserted_date", "time"),
    *("payload_size", "payload_uri"),
)
"""The columns of a message in a selection; never its content."""
_NEWER = {"metadata_paths", "result_paths", "error", "dead_letters"}


@dataclass(frozen=True)
class PurgeSelection:
    """Days that leave whole, and one row for each selected message of other days; None: there can't be any.

    Rows have NARROW with ``rules`` (names), ``erase``, ``held``, ``untold`` (``where`` could not be evaluated) and the
    columns of messages that wait for subscriptions. Rows that are untold, or wait, and are selected by no rule are only
    counted.
    """

    version: int
    days: tuple[date, ...]
    rows: DataFrame | None
    consumers: Consumers

    def going(self) -> DataFrame | None:
        """The rows that would leave, besides whole days."""
        return None if self.rows is None else self.rows.where((F.size("rules") > 0) & ~F.col("held"))

    def release(self) -> None:
        """Release the memory."""
        if self.rows is not None:
            self.rows.unpersist()


def select(context: PurgeRun) -> PurgeSelection:
    """Judge all messages of the current version, once; except for whole days this happens lazily."""
    consumers = consumers_of(context)
    table = context.store.table("messages")
    version = table.version()
    files = complete(context.store, "messages", files_of(table), *TIMES)
    whole = whole_days(context.task, files, context.as_of)
    if not whole.others:
        return PurgeSelection(version, whole.days, None, consumers)
    messages = read_messages(context.spark, context.store, version)
    if whole.days:
        messages = messages.where(~F.col("inserted_date").isin(*whole.days))
    rows = _candidates(context, messages, consumers).persist(StorageLevel.MEMORY_AND_DISK)
    return PurgeSelection(version, whole.days, rows, consumers)


@dataclass(frozen=True)
class Summary:
    """A preview, and what later steps need of the same rows."""

    preview: Preview
    erased: int
    by_day: dict[date, int]


def spec_digest(task: PurgeTask) -> str:
    """A digest of what a task asks for, without mode, approval and holds."""
    about_itself = {"mode", "approved_preview", "approved_by", "approval_required", "holds"}
    spec = task.model_dump(mode="json", exclude=about_itself)
    if spec["scrub"] is not None:
        # Fields that an earlier release did not have are not in its previews.
        spec["scrub"] = {name: said for name, said in spec["scrub"].items() if said or name not in _NEWER}
    return _digest(spec)


def holds_digest(task: PurgeTask) -> str:
    """A digest of a task's holds."""
    return _digest(task.model_dump(mode="json", include={"holds"}))


def summarize(context: PurgeRun, selection: PurgeSelection) -> Summary:
    """Count a selection in one pass, and report what could not be evaluated."""
    rules = context.task.rules
    names = [rule.name for rule in rules]
    consumers = selection.consumers
    cursors = tuple(consumers.cursors.values())
    days = count_days(context.store, selection.version, selection.days, rules, context.as_of, cursors)
    if selection.rows is not None:
        removes = context.task.action == "Delete"
        days += [row.asDict() for row in _by_day(selection.rows, names, consumers, removes=removes).collect()]
    total = {name: sum(day[name] or 0 for day in days) for name in ("messages", "bytes", "held", "untold", "erased")}
    by_rule = {name: sum(day["by_rule"][index] for day in days) for index, name in enumerate(names)}
    if total["untold"]:
        context.progress.say(f"{total['untold']} messages stay: a rule's predicate could not be computed on them")
    preview = Preview(
        id=preview_id(context, store_id(context.store), selection.version, days),
        table_version=selection.version,
        as_of=context.as_of,
        messages=total["messages"],
        bytes=total["bytes"],
        oldest=_time(min((day["oldest"] for day in days if day["oldest"] is not None), default=None)),
        newest=_time(max((day["newest"] for day in days if day["newest"] is not None), default=None)),
        by_rule=by_rule,
        held=total["held"],
        undecided=total["untold"],
        subscriptions=consumers.unsent(days),
    )
    by_day = {day["inserted_date"]: day["messages"] for day in days if day["messages"]}
    return Summary(preview, total["erased"], by_day)


@contextmanager
def selected(context: PurgeRun) -> Iterator[tuple[PurgeSelection, Summary]]:
    """What the rules select, and its summary; its memory is released at the end."""
    context.progress.step("select")
    selection = select(context)
    try:
        yield selection, summarize(context, selection)
    finally:
        selection.release()


@contextmanager
def listing(run: Run) -> Iterator[tuple[Preview, DataFrame] | None]:
    """The preview of a purge and the messages that it counts, by position; None: there is no store.

    The rows are those of ``messages`` with ``rules``, the names of the rules that select a message.
    """
    if not exists(run.store):
        yield None
        return
    context = _row_by_row(run)
    with selected(context) as (selection, summary):
        going = selection.going()
        assert going is not None
        messages = read_messages(context.spark, context.store, selection.version)
        rows = messages.join(going.select("global_position", "rules"), "global_position")
        yield summary.preview, rows.orderBy(F.col("global_position"))


def _row_by_row(run: Run) -> PurgeRun:
    """The run as if it waited for approval: then no day goes by its name, and each message has its rules."""
    task = run.with_task(PurgeTask).task.model_copy(update={"approval_required": True})
    return replace(run, document=run.document.model_copy(update={"task": task})).with_task(PurgeTask)


def preview_id(context: PurgeRun, store: str, version: int, days: list[dict[str, Any]]) -> str:
    """The id of a preview: a digest of the store's id, what was asked, and what was selected day by day."""
    task = context.task
    rows = sorted((str(day["inserted_date"]), day["messages"], day["xor"], str(day["sum"])) for day in days)
    return _digest([context.uri, store, spec_digest(task), holds_digest(task), version, rows])[:32]


def _candidates(context: PurgeRun, messages: DataFrame, consumers: Consumers) -> DataFrame:
    keeps = held(context.task.holds, context.as_of)
    rules = [rule for rule in context.task.rules if not says_nothing(rule)]
    rows, conditions, wanted = messages, [], []
    for number, rule in enumerate(rules):
        rows, condition, wants = _condition(rows, messages, rule, number, keeps, context, consumers)
        conditions.append(condition)
        wanted.append(wants)
    fails = any_of([unknown(rule, context.as_of) & consumers.passed(rule) for rule in rules])
    if context.task.action == "Scrub" and context.task.scrub is not None:
        # A preview doesn't upgrade the store, so the column may be missing.
        rows = rows.where(is_due(context.task.scrub) if "scrubs" in rows.columns else F.lit(True))
    selected = rows.where(any_of([*wanted, fails]))
    flags = [F.coalesce(condition, F.lit(False)) for condition in conditions]
    free = ~any_of(flags) & ~keeps
    return selected.select(
        *NARROW,
        _names(rules, flags).alias("rules"),
        any_of([flag for rule, flag in zip(rules, flags, strict=True) if rule.erase]).alias("erase"),
        keeps.alias("held"),
        fails.alias("untold"),
        *consumers.waits(rules, wanted, free, context.as_of),
    )


def _names(rules: list[Rule], flags: list[Column]) -> Column:
    named = [F.when(flag, F.lit(rule.name)) for rule, flag in zip(rules, flags, strict=True)]
    return F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")


def _condition(
    rows: DataFrame,
    messages: DataFrame,
    rule: Rule,
    number: int,
    keeps: Column,
    context: PurgeRun,
    consumers: Consumers,
) -> tuple[DataFrame, Column, Column]:
    """A whole rule as one condition, the same but for its subscriptions, and the rows with the columns that both need.

    A cap keeps the newest of the whole stream. A limit of bytes removes the oldest that match all else in the rule.
    """
    conditions = own_conditions(rule, context.as_of)
    if rule.max_messages_per_stream is not None:
        floor = f"floor_{number}"
        floors = cap_floors(messages, rule.max_messages_per_stream).withColumnRenamed("floor", floor)
        rows = rows.join(floors, "stream_name", "left")
        conditions.append(F.col("position") <= F.col(floor))
    candidates = rows if rule.max_messages_per_stream is not None else messages

    def whole(conditions: list[Column]) -> Column:
        if rule.max_bytes is None:
            return all_of(conditions)
        edge = bytes_edge(candidates, all_of(conditions), keeps, rule.max_bytes)
        return all_of([*conditions, F.lit(False) if edge is None else edge.reaches()])

    wanted = whole(conditions)
    return rows, whole([*conditions, consumers.passed(rule)]) if rule.consumed_by else wanted, wanted


def _by_day(rows: DataFrame, names: list[str], consumers: Consumers, *, removes: bool) -> DataFrame:
    selected = F.size("rules") > 0
    goes = selected & ~F.col("held")
    digest = F.when(goes, F.xxhash64("global_position", "status", "rules"))
    return rows.groupBy("inserted_date").agg(
        F.count_if(goes).alias("messages"),
        F.sum(F.when(goes, F.coalesce("payload_size", F.lit(0)))).alias("bytes"),
        F.min(F.when(goes, F.unix_micros("time"))).alias("oldest"),
        F.max(F.when(goes, F.unix_micros("time"))).alias("newest"),
        F.array(*(F.count_if(goes & F.array_contains("rules", name)) for name in names)).alias("by_rule"),
        F.count_if(selected & F.col("held")).alias("held"),
        F.count_if(F.col("untold") & ~selected).alias("untold"),
        F.count_if(goes & F.col("erase")).alias("erased"),
        # Two sums that don't depend on the order of rows; both together hardly collide.
        F.bit_xor(digest).alias("xor"),
        F.sum(digest.cast("decimal(20,0)")).alias("sum"),
        *consumers.counts(goes & ~F.col("erase") & F.lit(removes)),
    )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else from_microseconds(micros)
