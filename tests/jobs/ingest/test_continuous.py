"""A continuous ingest takes in what arrives while it runs, until it is told to stop."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_jobs.ingest.control import Unattended
from messagestore_jobs.ingest.job import run_ingest
from messagestore_jobs.store.folder import open_folder
from support.ingests import Stream, lines, record

INTERVAL = timedelta(seconds=10)


class Scripted(Unattended):
    """Lets time pass at once: each wait for more is one act of the script; then the run is stopped."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)
        self.waits: list[timedelta] = []

    def stopped(self, wait: timedelta) -> bool:
        if not wait:
            return False
        self.waits.append(wait)
        if not self.acts:
            return True
        self.acts.pop(0)()
        return False


class StoppedAfterOneBatch(Unattended):
    def __init__(self) -> None:
        self.asked = 0

    def stopped(self, wait: timedelta) -> bool:
        self.asked += 1
        return self.asked > 1


def test_what_arrives_between_two_looks_is_taken_in_by_the_second(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.arrive("1.jsonl", lines(record("a"), record("b")))
    document = stream.document(batch_interval=INTERVAL)
    open_folder(document.table)
    control = Scripted(
        lambda: stream.arrive("2.jsonl", lines(record("b"), record("c"))),
        lambda: None,
        lambda: stream.arrive("3.jsonl", lines(record("d"))),
    )

    outcome = run_ingest(document, spark, stream.heard, control)

    assert stream.ids() == ["a", "b", "c", "d"]
    assert [row["position"] for row in stream.messages()] == [0, 1, 2, 3]
    assert (outcome.batches, outcome.counts.received, outcome.counts.duplicates) == (3, 5, 1)
    assert control.waits == [INTERVAL] * 4


def test_a_stop_is_heeded_after_the_batch_under_way(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    for name in "abc":
        stream.arrive(f"{name}.jsonl", lines(record(name)))
    document = stream.document(batch_interval=INTERVAL)
    open_folder(document.table)

    outcome = run_ingest(document, spark, stream.heard, StoppedAfterOneBatch())

    assert stream.ids() == ["a"]
    assert outcome.lag.files == 2
    assert stream.run().counts.stored == 2
