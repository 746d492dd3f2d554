"""Counts what each chunk of a replay reads."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.store.objects import Objects
from messagestore_jobs.index.store_index import StoreIndex
from messagestore_jobs.replay.control import ReplayToEnd


class Costs(ReplayToEnd):
    """For each chunk: rows that Spark reads, indexes that are opened, and objects that the driver reads."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(None)
        self.now: Counter[str] = Counter()
        self.of_chunks: list[Counter[str]] = []
        self._spark = spark
        self._last_stage = -1
        self._rows()

    def reached(self, outcome: ReplayOutcome) -> None:
        """Called after each chunk."""
        self.now["rows"] = self._rows()
        self.of_chunks.append(self.now.copy())
        self.now.clear()

    def _rows(self) -> int:
        """Rows since the last call, including those of Delta's logs."""
        seen = self._last_stage
        new = [stage for stage in _stages(self._spark) if stage.stageId() > seen]
        self._last_stage = max((stage.stageId() for stage in new), default=seen)
        return sum(stage.inputRecords() for stage in new)


@contextmanager
def counting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Costs]:
    """Count while the block lasts."""
    costs = Costs(spark)

    def counted(function: Any, what: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            costs.now[what] += 1
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "read", counted(Objects.read, "objects"))
        patch.setattr(StoreIndex, "__init__", counted(StoreIndex.__init__, "indexes"))
        yield costs


def _stages(spark: SparkSession) -> Iterator[Any]:
    context = spark.sparkContext
    scala, jvm = context._jsc.sc(), context._jvm
    scala.listenerBus().waitUntilEmpty()
    none = jvm.java.util.ArrayList()
    stages = scala.statusStore().stageList(none, False, False, context._gateway.new_array(jvm.double, 0), none)
    return (stages.apply(i) for i in range(stages.size()))
