"""What a run uses: the CPU time of its processes, and the bytes of the rows that it writes."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from messagestore_core.contract.run_report import Usage
from messagestore_core.store.fence import HeldStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTROL_GROUP = Path("/sys/fs/cgroup")
_DIGITS = 3


class Meter:
    """Measures a run, from its construction."""

    def __init__(self) -> None:
        self._appended_bytes = 0
        self._begun, self._before = time.time(), time.process_time()
        self._spark: dict[str, int] | None = None

    @contextmanager
    def counting(self, spark: "SparkSession") -> Iterator[None]:
        """Count what Spark does while the block lasts."""
        jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
        counted = jvm.dev.messagestore.spark.RunUsage(context, int(self._begun * 1000))  # type: ignore[union-attr]
        try:
            yield
        finally:
            self._spark = _counts(counted)

    def count_appended(self, stores: Iterable[HeldStore]) -> None:
        """Count what was written to these stores beside Spark's tasks."""
        self._appended_bytes = sum(store.appended_bytes for store in stores)

    def usage(self) -> Usage:
        """What the run used so far; bytes only where Spark ran."""
        own, counts = time.process_time() - self._before, self._spark or {}
        written = counts.get("bytesWritten")
        return Usage(
            driver_cpu_seconds=round(own + counts.get("nanosOfJvm", 0) / 1e9, _DIGITS),
            executor_cpu_seconds=round(counts.get("nanosOfExecutors", 0) / 1e9, _DIGITS),
            bytes_written=None if written is None else written + self._appended_bytes,
        )


def _counts(counted: Any) -> dict[str, int] | None:
    """The counts, which are lost with their JVM."""
    from py4j.protocol import Py4JError

    try:
        counted.close()
        names = ("nanosOfJvm", "nanosOfExecutors", "bytesWritten")
        return {name: int(getattr(counted, name)()) for name in names}
    except (Py4JError, OSError):
        return None


def of_container(usage: Usage | None, group: Path = CONTROL_GROUP) -> Usage | None:
    """The usage with all CPU time of this container since its start, also of processes that have ended.

    Outside of a container it stays as it was measured.
    """
    seconds = _container_seconds(group)
    if seconds is None:
        return usage
    given = usage or Usage(driver_cpu_seconds=0)
    return given.model_copy(update={"driver_cpu_seconds": round(seconds, _DIGITS)})


def _container_seconds(group: Path) -> float | None:
    """By either version of control groups. The machine's own groups have other files: they count everything."""
    if (group / "cgroup.type").exists():
        counts = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        return int(counts["usage_usec"]) / 1e6
    first = group / "cpuacct"
    if (first / "cpuacct.usage").exists() and not (first / "release_agent").exists():
        return int((first / "cpuacct.usage").read_text()) / 1e9
    return None
