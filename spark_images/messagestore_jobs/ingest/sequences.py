"""Sequences in the store: sizes, largest numbers so far, and which are incomplete."""

import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from messagestore_core import clock
from messagestore_core.contract.ingest import Memory, SequenceState
from messagestore_core.store.delta_log import has_any
from messagestore_core.store.handle import Store
from messagestore_jobs.context import Run
from messagestore_jobs.index.keys import Flags
from messagestore_jobs.ingest.refusals import Members, Sizes
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import read_messages
from messagestore_jobs.sequences import sizes, states
from messagestore_jobs.session import python_bytes

BYTES_A_SEQUENCE = 250
_SHARE_OF_PYTHON = 3
"""Sequences may take one part of so many; batch and index take as much each."""

_Held = dict[str, tuple[int, int]]
SECONDS_BETWEEN = 60
"""A continuous run looks no more often, as each look reads the sequence columns of the whole table."""


class KnownSequences:
    """Sequences in the store: all are read at the first use if they fit into memory, else those of each batch."""

    def __init__(self, spark: SparkSession, store: Store, memory: Memory) -> None:
        self._spark, self._store = spark, store
        held = python_bytes(spark) // _SHARE_OF_PYTHON if memory.index_bytes is None else memory.index_bytes
        self._most = held // BYTES_A_SEQUENCE
        self._held: _Held | None = None
        self._looked_up = False

    def of(self, names: pa.Array) -> Sizes:
        """The sizes of these (distinct) sequences."""
        if not len(names):
            return _sizes([], {})
        if not self._looked_up:
            self._held = self._all()
            self._looked_up = True
        held = self._some(names) if self._held is None else self._held
        return _sizes(names.to_pylist(), held)

    def stored(self, members: Members, stored: Flags) -> None:
        """Add a committed batch, of which the ``stored`` records are in the store."""
        if self._held is None or not len(members.names):
            return
        after = members.after(self.of(members.names), stored)
        known = zip(after.sizes.tolist(), after.lasts.tolist(), strict=True)
        self._held.update(zip(members.names.to_pylist(), known, strict=True))
        if len(self._held) > self._most:
            self._held = None

    def _all(self) -> _Held | None:
        if not has_any(self._store, "sequence_id"):
            return {} if self._most else None
        rows = sizes(read_messages(self._spark, self._store)).limit(self._most + 1).toArrow()
        return None if rows.num_rows > self._most else _held(rows)

    def _some(self, names: pa.Array) -> _Held:
        wanted = self._spark.createDataFrame(pa.table({"sequence_id": names}))
        messages = read_messages(self._spark, self._store).join(F.broadcast(wanted), "sequence_id", "left_semi")
        return _held(sizes(messages).toArrow())


class IncompleteSequences:
    """Counts incomplete sequences of one store, for reports of one run."""

    def __init__(self, run: Run, timeout: timedelta | None) -> None:
        self._document, self._spark, self._store, self._timeout = run.document, run.spark, run.store, timeout
        self._state: SequenceState | None = None
        self._looked_at: float | None = None

    def state(self, *, last: bool) -> SequenceState | None:
        """The counts; None if no message belongs to a sequence. With ``last`` they are always counted again."""
        now = time.monotonic()
        if last or self._looked_at is None or now - self._looked_at >= SECONDS_BETWEEN:
            self._state = self._read() if has_any(self._store, "sequence_id") else None
            self._looked_at = now
        return self._state

    def _read(self) -> SequenceState | None:
        every = states(read_messages(self._spark, self._store))
        row = every.agg(
            F.count(F.lit(1)).alias("every"),
            F.count_if(~F.col("complete")).alias("incomplete"),
            F.count_if(~F.col("complete") & self._is_late()).alias("overdue"),
            F.min(F.when(~F.col("complete"), F.struct("first_time", "sequence_id"))).alias("oldest"),
        ).toArrow()
        counts = row.to_pylist()[0]
        oldest = counts["oldest"] or {"first_time": None, "sequence_id": None}
        if not counts["every"]:
            return None
        return SequenceState(
            incomplete=counts["incomplete"],
            overdue=counts["overdue"],
            oldest_time=oldest["first_time"],
            oldest_id=oldest["sequence_id"],
        )

    def _is_late(self) -> Column:
        if self._timeout is None:
            return F.lit(False)
        return F.col("first_time") <= instant(clock.shifted(clock.now(self._document), -self._timeout))


def _held(rows: pa.Table) -> _Held:
    columns = (rows[name].to_pylist() for name in ("sequence_id", "size", "last"))
    return {name: (size or 0, last or 0) for name, size, last in zip(*columns, strict=True)}


def _sizes(names: list[str], held: _Held) -> Sizes:
    known = np.array([held.get(name, (0, 0)) for name in names], dtype=np.int64).reshape(-1, 2)
    return Sizes(known[:, 0], known[:, 1])
