"""Which sequences of the store wait for members, counted where there are any."""

import time
from datetime import timedelta

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from messagestore_jobs import clock
from messagestore_jobs.contract.run_document import RunDocument
from messagestore_jobs.contract.run_report import SequenceState
from messagestore_jobs.sequences import states
from messagestore_jobs.store.delta_log import files_of, may_hold, open_table
from messagestore_jobs.store.messages import read_messages

SECONDS_BETWEEN = 60
"""A run that goes on looks no more often: each look reads the sequence columns of the whole table."""


class IncompleteSequences:
    """Of one store, for the reports of one run."""

    def __init__(self, document: RunDocument, spark: SparkSession, timeout: timedelta | None) -> None:
        self._document, self._spark, self._timeout = document, spark, timeout
        self._uri = document.table.uri
        self._told: SequenceState | None = None
        self._looked_at: float | None = None

    def told(self, *, last: bool) -> SequenceState | None:
        """How many there are; None where no message belongs to a sequence. ``last`` always looks anew."""
        now = time.monotonic()
        if last or self._looked_at is None or now - self._looked_at >= SECONDS_BETWEEN:
            self._told = self._look() if may_hold(files_of(open_table(self._uri, "messages")), "sequence_id") else None
            self._looked_at = now
        return self._told

    def _look(self) -> SequenceState | None:
        every = states(read_messages(self._spark, self._uri))
        row = every.agg(
            F.count(F.lit(1)).alias("every"),
            F.count_if(~F.col("complete")).alias("incomplete"),
            F.count_if(~F.col("complete") & self._is_late()).alias("overdue"),
            F.min(F.when(~F.col("complete"), F.struct("first_time", "sequence_id"))).alias("oldest"),
        ).toArrow()
        found = row.to_pylist()[0]
        oldest = found["oldest"] or {"first_time": None, "sequence_id": None}
        if not found["every"]:
            return None
        return SequenceState(
            incomplete=found["incomplete"],
            overdue=found["overdue"],
            oldest_time=oldest["first_time"],
            oldest_id=oldest["sequence_id"],
        )

    def _is_late(self) -> Column:
        if self._timeout is None:
            return F.lit(False)
        return F.col("first_time") <= F.lit(clock.now(self._document) - self._timeout)
