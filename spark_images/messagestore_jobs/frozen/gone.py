"""Take ids of sequences that no message has any more out of what replays under way have frozen.

In order of sequences a replay is cut at messages' own keys. A key of a sequence that is gone is replaced by the next
one that is there: between the two no message is left, so each cut has the same messages as before.
"""

from collections.abc import Iterator, Set

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import FROZEN, STATE
from messagestore_jobs.frozen.orders import BEHIND_ALL, BY_SEQUENCE
from messagestore_jobs.frozen.replays import Frozen, Key, ReplayState, frozen_in
from messagestore_jobs.rows.messages import read_messages

_SPLITS_AT_ONCE = 256


def forget_sequences(spark: SparkSession, store: HeldStore) -> None:
    """Cut replays of this store anew, once only the newest version of its messages is left.

    Raises:
        TableRefusedError: the state of one is not what a replay writes.
    """
    for name, frozen, gone in _with_gone(spark, store):
        state = ReplayState(store, store.objects(f"{name}{STATE}"))
        state.freeze(_cut_anew(BY_SEQUENCE.keyed(read_messages(spark, store)), state, frozen, gone))


def sequences_left(spark: SparkSession, store: Store) -> Iterator[str]:
    """Frozen selections with the id of a sequence that no message has any more, for people."""
    for name, _, _ in _with_gone(spark, store):
        yield f"{name}{STATE}/{FROZEN} has the id of a sequence that no message has"


def _with_gone(spark: SparkSession, store: Store) -> Iterator[tuple[str, Frozen, Set[str]]]:
    """The frozen selections of this store with such ids: the folder of each, and these ids."""
    for name, frozen in frozen_in(store):
        sequences = _sequences(frozen)
        if sequences and frozen.table == store.uri:
            ids = F.broadcast(spark.createDataFrame(pa.table({"sequence_id": sequences})))
            left = read_messages(spark, store).select("sequence_id").join(ids, "sequence_id", "left_semi").distinct()
            if gone := set(sequences).difference(left.toArrow()["sequence_id"].to_pylist()):
                yield name, frozen, gone


def of_earlier_releases(store: Store) -> Iterator[str]:
    """Frozen selections that may have ids of sequences of this store or of another, for people."""
    for name, frozen in frozen_in(store):
        if frozen.table is None and _sequences(frozen):
            yield f"ids of sequences in {name}{STATE}, where an earlier release froze a replay, until it ends"


def _sequences(frozen: Frozen) -> list[str]:
    """The ids of sequences in the keys."""
    keys = [*(split.start for split in frozen.splits), *([frozen.end] if frozen.end else [])]
    return sorted({str(key[1]) for key in keys if _is_of_sequence(key)})


def _is_of_sequence(key: Key) -> bool:
    return len(key) == len(BY_SEQUENCE.parts) and not key[0]


def _cut_anew(messages: DataFrame, state: ReplayState, frozen: Frozen, gone: Set[str]) -> Frozen:
    """The frozen selection with other keys in place of those of sequences that are gone; ``messages`` are keyed."""
    numbers = [i for i, split in enumerate(frozen.splits) if _is_of(split.start, gone)]
    first_keys = _first_left(messages, state, frozen, np.array(numbers, np.int64))
    end = _first(messages, frozen.end) if frozen.end and _is_of(frozen.end, gone) else frozen.end
    following, splits = end or BEHIND_ALL, list(frozen.splits)
    for i in reversed(range(len(splits))):
        if _is_of(splits[i].start, gone):
            # A split without messages becomes an empty range.
            splits[i] = splits[i]._replace(start=first_keys.get(i, following))
        following = splits[i].start
    return frozen.model_copy(update={"splits": tuple(splits), "end": end})


def _is_of(key: Key, gone: Set[str]) -> bool:
    return _is_of_sequence(key) and key[1] in gone


def _first_left(
    messages: DataFrame, state: ReplayState, frozen: Frozen, numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> dict[int, Key]:
    """The key of the first message that is left of each of these splits, if one is; a few splits are read at a time."""
    keys: dict[int, Key] = {}
    for first in np.unique(numbers // _SPLITS_AT_ONCE * _SPLITS_AT_ONCE).tolist():
        some = frozen.splits[first : first + _SPLITS_AT_ONCE]
        positions = state.positions(frozen, first, first + len(some))
        if positions is None or len(positions) != sum(split.messages for split in some):
            raise TableRefusedError(
                f"{state.uri} has not the positions of all that its replay selected; find out who wrote it, remove the "
                "folder, and make a new replay"
            )
        of = np.repeat(np.arange(first, first + len(some)), [split.messages for split in some])
        is_wanted = np.isin(of, numbers)
        rows = pa.table({"split": of[is_wanted], "global_position": positions[is_wanted]})
        bounds = F.col("global_position").between(int(positions.min()), int(positions.max()))
        left = messages.where(bounds).join(F.broadcast(messages.sparkSession.createDataFrame(rows)), "global_position")
        least = left.groupBy("split").agg(F.min(F.struct(*BY_SEQUENCE.columns)).alias("key"))
        keys |= {row["split"]: tuple(row["key"]) for row in least.collect()}
    return keys


def _first(messages: DataFrame, key: Key) -> Key:
    """The key of the first message at a key or after it."""
    least = messages.where(BY_SEQUENCE.between(key, None)).agg(F.min(F.struct(*BY_SEQUENCE.columns)).alias("key"))
    first = least.collect()[0]["key"]
    return BEHIND_ALL if first is None else tuple(first)
