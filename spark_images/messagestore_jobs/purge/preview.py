"""What a selection amounts to."""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import PurgeTask
from messagestore_jobs.contract.run_report import Preview
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.select import Selection
from messagestore_jobs.purge.whole_days import count_days

_NEWER = {"metadata_paths", "result_paths", "error", "dead_letters"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Summary:
    """A preview, and what the steps after it want to know of the same rows."""

    preview: Preview
    erased: int
    by_day: dict[date, int]


def spec_digest(task: PurgeTask) -> str:
    """What a task asks for, whatever its mode and approval, and whatever holds there are."""
    about_itself = {"mode", "approved_preview", "approved_by", "approval_required", "holds"}
    asked = task.model_dump(mode="json", exclude=about_itself)
    if asked["scrub"] is not None:
        # What an earlier release could not be asked for, and its previews do not tell.
        asked["scrub"] = {name: said for name, said in asked["scrub"].items() if said or name not in _NEWER}
    return _digest(asked)


def holds_digest(task: PurgeTask) -> str:
    """The holds that a task was given."""
    return _digest(task.model_dump(mode="json", include={"holds"}))


def summarize(context: Context, selection: Selection) -> Summary:
    """Count a selection in one pass, and say what could not be told."""
    rules = context.task.rules
    names = [rule.name for rule in rules]
    days = count_days(context.uri, selection.version, selection.days, rules, context.as_of)
    if selection.rows is not None:
        days += [row.asDict() for row in _by_day(selection.rows, names).collect()]
    total = {name: sum(day[name] or 0 for day in days) for name in ("messages", "bytes", "held", "untold", "erased")}
    by_rule = {name: sum(day["by_rule"][place] for day in days) for place, name in enumerate(names)}
    if total["untold"]:
        context.progress.say(f"{total['untold']} messages stay because a rule's predicate could not be told on them")
    preview = Preview(
        id=preview_id(context, selection.version, days),
        table_version=selection.version,
        as_of=context.as_of,
        messages=total["messages"],
        bytes=total["bytes"],
        oldest=_time(min((day["oldest"] for day in days if day["oldest"] is not None), default=None)),
        newest=_time(max((day["newest"] for day in days if day["newest"] is not None), default=None)),
        by_rule=by_rule,
        held=total["held"],
        undecided=total["untold"],
    )
    by_day = {day["inserted_date"]: day["messages"] for day in days if day["messages"]}
    return Summary(preview, total["erased"], by_day)


def _by_day(rows: DataFrame, names: list[str]) -> DataFrame:
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
        # Two sums that do not mind the order of rows; together they are hard to meet by chance.
        F.bit_xor(digest).alias("xor"),
        F.sum(digest.cast("decimal(20,0)")).alias("sum"),
    )


def preview_id(context: Context, version: int, days: list[dict[str, Any]]) -> str:
    """What tells this preview from any other: of what was asked, and of what was selected day by day."""
    task = context.task
    rows = sorted((str(day["inserted_date"]), day["messages"], day["xor"], str(day["sum"])) for day in days)
    return _digest([context.uri, spec_digest(task), holds_digest(task), version, rows])[:32]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
