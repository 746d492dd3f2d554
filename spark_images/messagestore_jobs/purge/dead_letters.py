"""Delete dead letters: those that are too old, and copies of erased messages."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Match, Rule
from messagestore_core.store.dead_letters import NAME_COLUMNS, remove
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.purges import Plan
from messagestore_core.store.scan import scan
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.rows.matching import all_of
from messagestore_jobs.rows.messages import committing, read_table, table_to_change

_NAMED = pa.schema([(name, pa.string()) for name in NAME_COLUMNS])


def count_dead_letters(store: Store, before: datetime) -> int:
    """How many dead letters failed before a time."""
    dead_letters = store.table("dead_letters")
    return sum(batch.num_rows for batch in scan(dead_letters, ["failed_at"], pc.field("failed_at") < before))


def delete_dead_letters(store: HeldStore, before: datetime) -> None:
    """Delete the dead letters that failed before a time, durably."""
    if count_dead_letters(store, before) == 0:
        return
    with store.step("delete-dead-letters"):
        store.delete_rows("dead_letters", f"failed_at < '{before.isoformat()}'")


def dead_letters_naming(plan: Plan, erased: pa.Table) -> pa.Table:
    """Which dead letters an erasure of messages takes along: columns NAME_COLUMNS, as ``erased`` has them; null is any.

    These are the ids of the erased messages. If a rule that selected some names streams or correlation ids, then also
    those of them that erased messages have: a record that was set aside is of them, too.
    """
    selected = [rule for rule in plan.task.rules if rule.erase and plan.preview.by_rule.get(rule.name)]
    pairs = {pair for rule in selected for pair in _named_by(rule, erased)}
    by_rule = [dict(zip(NAME_COLUMNS, (None, *pair), strict=True)) for pair in sorted(pairs, key=str)]
    return pa.concat_tables([by_id(erased["message_id"]), pa.Table.from_pylist(by_rule, schema=_NAMED)])


def by_id(message_ids: pa.ChunkedArray) -> pa.Table:
    """The dead letters of messages, as ``dead_letters_naming`` names them."""
    none = pa.nulls(len(message_ids), pa.string())
    return pa.table([message_ids, none, none], schema=_NAMED)


def _named_by(rule: Rule, erased: pa.Table) -> Iterable[tuple[str | None, str | None]]:
    """Streams and correlation ids of erased messages that a rule names; none if it names messages."""
    match, before = rule.match or Match(), rule.truncate_before
    streams = {*match.stream_names, *([before.stream_name] if before else [])}
    correlations = {*match.correlation_ids}
    if match.message_ids or not (streams or correlations):
        return ()
    named = [set(erased[name].to_pylist()) for name in NAME_COLUMNS[1:]]
    return product(streams & named[0] if streams else [None], correlations & named[1] if correlations else [None])


def forget_copies(context: PurgeRun, named: pa.Table) -> None:
    """Delete dead letters that are named by one of the rows, which have columns NAME_COLUMNS, where null is any.

    Of a dead letter that doesn't tell its id, stream or correlation id, the bytes, headers and detail are searched for
    it, as a whole word.
    """
    names = F.broadcast(context.spark.createDataFrame(named)).alias("erased")
    dead_letters = read_table(context.spark, context.store, "dead_letters").alias("d")
    copies = dead_letters.join(names, _is_named(), "left_semi").count()
    if not copies:
        return
    merge = table_to_change(context.spark, context.store, "dead_letters").alias("d").merge(names, _is_named())
    with committing(context.spark, context.store, "erase-dead-letters", table="dead_letters"):
        merge.whenMatchedDelete().execute()
    context.progress.say(f"{copies} dead letters name messages that were erased or scrubbed, and were deleted")


def forget_late_copies(store: HeldStore, erased: Erased) -> None:
    """Delete dead letters that name an erased message and came after its erasure."""
    late = list(naming(store, erased))
    if late:
        with store.step("erase-dead-letters"):
            remove(store, pa.Table.from_batches(late))


def naming(store: Store, erased: Erased) -> Iterator[pa.RecordBatch]:
    """Columns raw and source of dead letters that name an erased message.

    By their id; if their record doesn't tell it, by the words of their bytes, headers and detail.
    """
    for batch in scan(store.table("dead_letters"), ["raw", "source", "headers", "detail", "message_id"]):
        named = erased.contains(batch["message_id"])
        for row in np.flatnonzero(batch["message_id"].is_null()):
            named[row] = _names_any(batch, int(row), erased)
        if named.any():
            yield batch.filter(pa.array(named)).select(["raw", "source"])


def _names_any(dead_letters: pa.RecordBatch, row: int, erased: Erased) -> bool:
    raw, detail = dead_letters["raw"][row].as_py(), dead_letters["detail"][row].as_py()
    texts = [detail, *(value for _, value in dead_letters["headers"][row].as_py() or ())]
    return any(erased.named_in(part) for part in (raw or b"", *(text.encode() for text in texts if text)))


def _is_named() -> Column:
    """Whether row erased names dead letter d."""
    texts = (F.col("d.raw").cast("string"), F.col("d.detail"), F.map_values("d.headers"))
    said = F.concat_ws("\n", *texts)
    conditions = []
    for name in NAME_COLUMNS:
        erased, own = F.col(f"erased.{name}"), F.col(f"d.{name}")
        # A record that tells its id has no other correlation id than it tells.
        unnamed = own.isNull() & F.col("d.message_id").isNull() if name == "correlation_id" else own.isNull()
        words = unnamed & F.contains(said, erased) & F.rlike(said, _as_word(erased))
        conditions.append(erased.isNull() | (own == erased) | words)
    return F.coalesce(all_of(conditions), F.lit(False))


def _as_word(text: Column) -> Column:
    r"""A pattern for the text as a whole word; ``\Q…\E`` quotes it."""
    literal = F.concat(F.lit(r"\Q"), F.replace(text, F.lit(r"\E"), F.lit(r"\E\\E\Q")), F.lit(r"\E"))
    return F.concat(F.lit(r"(?<![\w-])"), literal, F.lit(r"(?![\w-])"))
