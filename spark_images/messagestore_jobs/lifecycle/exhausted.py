"""Messages that failed and have no retry left, as dead letters."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from messagestore_jobs.lifecycle.context import Context
from messagestore_jobs.lifecycle.fold import Message
from messagestore_jobs.lifecycle.set_aside import dead_letters
from messagestore_jobs.native import with_native
from messagestore_jobs.reasons import DeadLetterReason
from messagestore_jobs.store.bounds import Bounds
from messagestore_jobs.store.dead_letters import places, set_aside, set_aside_for
from messagestore_jobs.store.messages import read_messages

_DETAIL = "it failed and has no retry left"


def set_exhausted_aside(context: Context, messages: Sequence[Message], at: datetime, batch: str) -> None:
    """Set messages aside as their Native records, once by ``batch``; they stay in the store, as FAILED.

    A payload that lies in an object of its own is not in the record.
    """
    positions = [message.global_position for message in messages]
    days = sorted({message.inserted_date for message in messages})
    asked = context.spark.createDataFrame(pa.table({"global_position": pa.array(positions, pa.int64())}))
    rows = read_messages(context.spark, context.uri).where(Bounds(days, min(positions), max(positions)).condition())
    found = with_native(rows.join(F.broadcast(asked), "global_position", "left_semi"))
    records = found.orderBy("global_position").select(F.col("value").cast("binary").alias("raw"), "source").toArrow()
    reasons = [str(DeadLetterReason.RETRIES_EXHAUSTED)] * records.num_rows
    why = pa.table({"reason": reasons, "detail": [_DETAIL] * records.num_rows})
    letters = dead_letters(records["raw"], records["source"], why, at, batch)
    known = _set_aside_by(context.uri, batch, set(pc.struct_field(records["source"], "uri").to_pylist()))
    new = letters.filter(pa.array([place[:3] not in known for place in places(letters)], pa.bool_()))
    if new.num_rows:
        set_aside(context.uri, new)


def _set_aside_by(uri: str, batch: str, uris: set[str]) -> set[tuple[str, int | None, int]]:
    """Where the messages were read that an earlier try of the batch has set aside.

    Their record may be another by now: one that was due has been sent again meanwhile, say.
    """
    letters = set_aside_for(uri, uris, (DeadLetterReason.RETRIES_EXHAUSTED,))
    return {place[:3] for place in places(letters.filter(pc.equal(letters["batch"], batch)))}
