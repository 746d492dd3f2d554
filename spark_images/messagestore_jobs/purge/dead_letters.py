"""Delete dead letters: those that are too old, and copies of erased messages."""

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.store.external import external_write
from messagestore_core.store.fence import commit_properties, open_to_write
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.purge.plan import PurgeRun
from messagestore_jobs.rows.tables import read_table, table_to_change


def count_dead_letters(store: Store, before: datetime) -> int:
    """How many dead letters failed before a time."""
    letters = store.table("dead_letters")
    return sum(batch.num_rows for batch in scan(letters, ["failed_at"], pc.field("failed_at") < before))


def delete_dead_letters(store: Store, before: datetime) -> None:
    """Delete the dead letters that failed before a time, durably."""
    if count_dead_letters(store, before) == 0:
        return
    with external_write("delete-dead-letters"):
        open_to_write(store, "dead_letters").delete(
            f"failed_at < '{before.isoformat()}'", commit_properties=commit_properties(store)
        )


def forget_copies(context: PurgeRun, message_ids: list[str]) -> None:
    """Delete dead letters whose bytes contain one of the ids as a whole word, as they may be copies of a message.

    A dead letter no longer shows which of its bytes are its id.
    """
    raw = F.col("d.raw").cast("string")
    ids = context.spark.createDataFrame([(one,) for one in message_ids], "message_id string").alias("erased")
    names = F.contains(raw, F.col("erased.message_id")) & F.rlike(raw, _as_word(F.col("erased.message_id")))
    letters = read_table(context.spark, context.store, "dead_letters").alias("d")
    copies = letters.join(F.broadcast(ids), names, "left_semi").count()
    if not copies:
        return
    with external_write("erase-dead-letters"):
        merge = table_to_change(context.spark, context.store, "dead_letters").alias("d").merge(F.broadcast(ids), names)
        merge.whenMatchedDelete().execute()
    context.progress.say(f"{copies} dead letters name messages that were erased or scrubbed, and were deleted")


def forget_late_copies(store: Store, erased: Erased) -> None:
    """Delete dead letters that name an erased message and came after its erasure."""
    late = list(naming(store, erased))
    if not late:
        return
    with external_write("erase-dead-letters"):
        open_to_write(store, "dead_letters").merge(
            pa.table({"raw": pa.array(late, pa.binary())}),
            predicate="d.raw = s.raw",
            source_alias="s",
            target_alias="d",
            commit_properties=commit_properties(store),
        ).when_matched_delete().execute()


def naming(store: Store, erased: Erased) -> Iterator[bytes]:
    """The distinct bytes of dead letters that name an erased message."""
    found: set[bytes] = set()
    for batch in scan(store.table("dead_letters"), ["raw"]):
        found.update(raw for raw in batch["raw"].to_pylist() if raw is not None and erased.named_in(raw))
    yield from sorted(found)


def _as_word(text: Column) -> Column:
    r"""A pattern for the text as a whole word; ``\Q…\E`` quotes it."""
    literal = F.concat(F.lit(r"\Q"), F.replace(text, F.lit(r"\E"), F.lit(r"\E\\E\Q")), F.lit(r"\E"))
    return F.concat(F.lit(r"(?<![\w-])"), literal, F.lit(r"(?![\w-])"))
