"""What a selection had and the store has no more: a message that was erased is to be gone, any other is lost.

A frozen version can be read while its files are there. An erasure removes the files of all earlier versions, and with
them those of messages that a purge took meanwhile.
"""

from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.replay.cut import Stretch
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.staging import SHOWN
from messagestore_jobs.replay.state import Frozen
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.tombstones import erased_positions


class Missing(NamedTuple):
    """Of a chunk: how many messages were erased, how many are lost, and the first positions of the lost ones."""

    erased: int = 0
    lost: int = 0
    first_lost: tuple[int, ...] = ()


def place(source: Source, frozen: Frozen, uri: str) -> Frozen:
    """Write the selected positions down in the order of the replay, where the grains alone don't tell them."""
    if source.task.origin == "DeadLetters" or all(grain.dense for grain in frozen.grains):
        return frozen
    rows = source.between(frozen.grains[0].start, frozen.end)
    number = F.monotonically_increasing_id().alias("n")
    positions = rows.orderBy(*source.order.columns).select("global_position", number)
    with external_write("replay-placed"):
        positions.write.mode("overwrite").parquet(uri)
    return frozen.model_copy(update={"placed": True})


def missing(source: Source, frozen: Frozen, first: int, stretch: Stretch, short: int, placed_uri: str) -> Missing:
    """Why a chunk has fewer messages than were selected.

    Args:
        source: as the chunk was read.
        frozen: the selection.
        first: the chunk's first grain.
        stretch: what it sends.
        short: so many fewer.
        placed_uri: where the positions were written down, if they were.
    """
    if not short:
        return Missing()
    if source.task.origin == "DeadLetters":
        return Missing(lost=short)
    there = _positions(source.between(stretch.cuts[0], stretch.end))
    expected = _expected(source, frozen, first, stretch, placed_uri)
    if expected is None:
        gone = stretch.messages - len(there)
        return Missing(short - gone, gone)
    lost = np.setdiff1d(np.setdiff1d(expected, there), erased_positions(source.uri))
    return Missing(short - len(lost), len(lost), tuple(lost[:SHOWN].tolist()))


def _expected(
    source: Source, frozen: Frozen, first: int, stretch: Stretch, placed_uri: str
) -> npt.NDArray[np.int64] | None:
    """The positions that were selected; None of a replay that an earlier release froze, where they are not known."""
    grains = frozen.grains[first : stretch.next_grain]
    if all(grain.dense for grain in grains):
        firsts = [cast("int", grain.first_global_position) for grain in grains]
        return np.concatenate([np.arange(first, first + g.messages) for first, g in zip(firsts, grains, strict=True)])
    if not frozen.placed:
        return None
    before = sum(grain.messages for grain in frozen.grains[:first])
    rows = source.spark.read.schema("global_position bigint, n bigint").parquet(placed_uri).orderBy("n")
    return _positions(rows.offset(before).limit(stretch.messages))


def _positions(rows: DataFrame) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = rows.select("global_position").toArrow()["global_position"].to_numpy()
    return found
