"""Days that leave whole because of their age, found by the log and a few narrow columns, without Spark.

Most of what policies remove are days that are too old. A plan needs no row for each of their messages: the table's
version and the day identify them, and a commit drops their files without rewriting any.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from messagestore_core.clock import shifted
from messagestore_core.contract.purge import PurgeTask, Rule
from messagestore_core.store.delta_log import DAY, end_of, files_of, may_be_before, of_day
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan
from messagestore_jobs.index.changes import digest_of
from messagestore_jobs.purge.rules import says_nothing

TIMES = ("time", "inserted_at")
_COUNTED = (*TIMES, "payload_size")


class WholeDays(NamedTuple):
    """The days that leave whole, oldest first, and whether messages of other days may leave too."""

    days: tuple[date, ...]
    others: bool


def whole_days(task: PurgeTask, files: pa.Table, as_of: datetime) -> WholeDays:
    """The days that leave whole, by the flattened add actions of ``messages``.

    There are none if a rule has more conditions than age, or the task has holds, scrubs, or needs approval, which may
    come when the files are gone.
    """
    rules = [rule for rule in task.rules if not says_nothing(rule)]
    by_age = rules and all(rule == Rule(name=rule.name, max_age=rule.max_age) for rule in rules)
    if not by_age or task.holds or task.action != "Delete" or task.approval_required or not files.num_rows:
        return WholeDays((), others=True)
    edge = max(shifted(as_of, -rule.max_age) for rule in rules if rule.max_age is not None)
    days = tuple(day for day in sorted(set(files[DAY].to_pylist())) if end_of(day) <= edge)
    rest = files.filter(pc.invert(pc.is_in(files[DAY], pa.array(days, files[DAY].type))))
    return WholeDays(days, any(may_be_before(rest, name, edge) for name in TIMES))


def count_days(
    store: Store,
    version: int,
    days: Sequence[date],
    rules: Sequence[Rule],
    as_of: datetime,
    cursors: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """The counts of days that leave whole, by their names in a preview; ``missed``: of what is behind each cursor."""
    if not days:
        return []
    edges = [None if rule.max_age is None else shifted(as_of, -rule.max_age) for rule in rules]
    table = store.table("messages", version)
    files = files_of(table)
    return [_count_day(table, day, edges, cursors) | _digest(of_day(files, day)) for day in days]


def _count_day(table: DeltaTable, day: date, edges: list[datetime | None], cursors: Sequence[int]) -> dict[str, Any]:
    messages, size, by_rule, missed = 0, 0, [0] * len(edges), [0] * len(cursors)
    oldest, newest = [], []
    for batch in _batches(table, day, (*_COUNTED, "global_position") if cursors else _COUNTED):
        messages += batch.num_rows
        size += pc.sum(batch["payload_size"]).as_py() or 0
        span = pc.min_max(batch["time"].cast(pa.int64()))
        oldest.append(span["min"].as_py())
        newest.append(span["max"].as_py())
        by_rule = [count + _older(batch, edge) for count, edge in zip(by_rule, edges, strict=True)]
        missed = [count + _behind(batch, cursor) for count, cursor in zip(missed, cursors, strict=True)]
    nothing = dict.fromkeys(("held", "untold", "erased"), 0)
    return nothing | {
        "inserted_date": day,
        "messages": messages,
        "bytes": size,
        "oldest": min(oldest, default=None),
        "newest": max(newest, default=None),
        "by_rule": by_rule,
        # Only rules by age alone take whole days.
        "waiting": [],
        "since": [],
        "missed": missed,
    }


def _digest(files: pa.Table) -> dict[str, Any]:
    """A digest of a day's files, which identify its messages at one version."""
    paths = set(files["path"].to_pylist())
    return {"xor": digest_of(paths), "sum": len(paths)}


def streams_of_days(store: Store, version: int, days: Sequence[date]) -> pa.Table:
    """The next position of each stream after some days: columns stream_name, next_position."""
    if not days:
        # Without days the version may be gone.
        return pa.table({"stream_name": pa.array([], pa.string()), "next_position": pa.array([], pa.int64())})
    table = store.table("messages", version)
    heads = pa.table({"stream_name": pa.array([], pa.string()), "position_max": pa.array([], pa.int64())})
    for day in days:
        for batch in _batches(table, day, ("stream_name", "position")):
            last = pa.table(batch).group_by("stream_name").aggregate([("position", "max")])
            both = pa.concat_tables([heads, last.cast(heads.schema)]).rename_columns(["stream_name", "position"])
            heads = both.group_by("stream_name").aggregate([("position", "max")])
    return pa.table({"stream_name": heads["stream_name"], "next_position": pc.add(heads["position_max"], 1)})


def _batches(table: DeltaTable, day: date, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    yield from scan(table, columns, pc.field("inserted_date") == day, within=f"inserted_date = '{day}'")


def _older(batch: pa.RecordBatch, edge: datetime | None) -> int:
    """How many messages of a batch are older than ``edge``, as in ``rules.before``."""
    if edge is None:
        return 0
    older = [pc.less(batch[name], pa.scalar(edge, batch[name].type)) for name in TIMES]
    return int(pc.sum(pc.or_kleene(*older)).as_py() or 0)


def _behind(batch: pa.RecordBatch, cursor: int) -> int:
    """How many messages of a batch are behind a cursor."""
    return int(pc.sum(pc.greater(batch["global_position"], cursor)).as_py() or 0)
