"""A subscription of complete sequences: which messages go in a round, and which wait for others of their sequence.

A message goes once its sequence is complete, or overdue if such are selected. Once some of a sequence went, the others
go alone, as they come. All others wait, also in later rounds. So the position of a cursor, and the positions that wait,
say what has gone.
"""

from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core import clock
from messagestore_core.contract.replay import Selection
from messagestore_core.store.cursors import MOST_WAITING, Cursor, Waiting, too_many_wait
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.sequences import members, states

Positions = npt.NDArray[np.int64]


def is_complete_only(selection: Selection) -> bool:
    """Whether only complete sequences are selected."""
    return selection.sequences is not None and selection.sequences.complete_only


def goes(selection: Selection, now: datetime) -> Column:
    """Whether a sequence of ``states`` is complete, or overdue if such are selected."""
    if not _sends_overdue(selection):
        return F.col("complete")
    assert selection.sequence_timeout is not None
    return F.col("complete") | (F.col("first_time") <= instant(clock.shifted(now, -selection.sequence_timeout)))


def falls_due(waiting: Waiting, selection: Selection, now: datetime) -> bool:
    """Whether something that waits may be overdue by now."""
    if waiting.oldest_time is None or not _sends_overdue(selection):
        return False
    assert selection.sequence_timeout is not None
    return clock.shifted(waiting.oldest_time, selection.sequence_timeout) <= now


def without_erased(messages: DataFrame, erased: Positions) -> DataFrame:
    """The messages but for erased ones whose rows are still there: they would make their sequences complete."""
    if not len(erased):
        return messages
    gone = F.broadcast(messages.sparkSession.createDataFrame(pa.table({"global_position": erased})))
    return messages.join(gone, "global_position", "left_anti").select(*messages.columns)


def who_waits(
    messages: DataFrame, chosen: Column, selection: Selection, cursor: Cursor, until: int, now: datetime
) -> DataFrame:
    """The messages that wait after a round: columns ``global_position``, and ``first_time`` of its sequence.

    ``chosen`` tells whether a message matches all selectors that look at it alone, at any position. The cursor is the
    one before the round, which goes up to ``until``.
    """
    assert cursor.sequences is not None
    place, known = F.col("global_position"), members(messages.where(F.col("global_position") <= until))
    waited = _flagged(messages.sparkSession, dict.fromkeys(cursor.waiting.positions, True), "_waited")
    mine = known.where(chosen & (place > cursor.sequences.after)).join(F.broadcast(waited), "global_position", "left")
    is_left = F.coalesce("_waited", place > cursor.global_position)
    left = mine.where(is_left).select("global_position", "sequence_id")
    begun = mine.where(~is_left).select("sequence_id").distinct()
    theirs = known.join(left.select("sequence_id").distinct(), "sequence_id", "left_semi")
    waiting = states(theirs).where(~goes(selection, now)).join(begun, "sequence_id", "left_anti")
    return left.join(waiting, "sequence_id").select("global_position", "first_time")


def as_kept(rows: DataFrame) -> Waiting:
    """What ``who_waits`` has found, as a cursor keeps it.

    Raises:
        RunFailedError: too many wait.
    """
    micros = F.unix_micros("first_time").alias("first_time")
    waiting = rows.select("global_position", micros).limit(MOST_WAITING + 1).toArrow().sort_by("global_position")
    if waiting.num_rows > MOST_WAITING:
        raise too_many_wait()
    oldest = min((time for time in waiting["first_time"].to_pylist() if time is not None), default=None)
    return Waiting(
        positions=tuple(waiting["global_position"].to_pylist()),
        oldest_time=None if oldest is None else clock.from_microseconds(oldest),
    )


def of_round(messages: DataFrame, selection: Selection) -> DataFrame:
    """The messages at the positions of a round."""
    within, waiting = selection.global_positions, selection.waiting
    assert within is not None
    place, first, last = F.col("global_position"), within.from_ or 0, within.to or 0
    if waiting is None:
        return messages.where(place.between(first, last))
    flags = _flagged(
        messages.sparkSession, dict.fromkeys(waiting.before, True) | dict.fromkeys(waiting.after, False), "_goes"
    )
    near = messages.where(place.between(min((first, *waiting.before)), last))
    flagged = near.join(F.broadcast(flags), "global_position", "left")
    return flagged.where(F.coalesce("_goes", place >= first)).select(*messages.columns)


def are_of_round(positions: Positions, selection: Selection) -> npt.NDArray[np.bool_]:
    """Which positions are those of a round."""
    within = selection.global_positions
    assert within is not None
    belongs: npt.NDArray[np.bool_] = (positions >= (within.from_ or 0)) & (positions <= (within.to or 0))
    if selection.waiting is not None:
        belongs |= np.isin(positions, selection.waiting.before)
        belongs &= ~np.isin(positions, selection.waiting.after)
    return belongs


def count_of_round(selection: Selection) -> int:
    """How many positions a round has."""
    within, waiting = selection.global_positions, selection.waiting
    assert within is not None
    count = (within.to or 0) - (within.from_ or 0) + 1
    return count + (len(waiting.before) - len(waiting.after) if waiting is not None else 0)


def _sends_overdue(selection: Selection) -> bool:
    sequences = selection.sequences
    return sequences is not None and sequences.or_overdue and selection.sequence_timeout is not None


def _flagged(spark: SparkSession, flags: dict[int, bool], name: str) -> DataFrame:
    table = pa.table({"global_position": pa.array(flags, pa.int64()), name: pa.array(flags.values(), pa.bool_())})
    return spark.createDataFrame(table)
