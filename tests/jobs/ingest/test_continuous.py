"""A continuous ingest reads what arrives while it runs, until it must stop."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import Upkeep
from messagestore_core.contract.run_document import MaintainTask
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.driver.control import Maintenance
from messagestore_jobs.ingest.job import IngestToEnd, run_ingest
from messagestore_jobs.maintain import maintaining
from support.ingests import Stream, adds_up, lines, record

INTERVAL = timedelta(seconds=10)


class Scripted(IngestToEnd):
    """Replaces waiting: each wait for more runs one act of the script; after the last, the run stops."""

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


def _raise(failure: Exception) -> RunError:
    raise failure


def compacted(uri: str, name: str) -> int:
    """How often a table was compacted."""
    return sum(entry["operation"] == "OPTIMIZE" for entry in Store(uri).table(name).history())


class StoppedAfterOneBatch(IngestToEnd):
    def __init__(self) -> None:
        self.asked = 0

    def stopped(self, wait: timedelta) -> bool:
        self.asked += 1
        return self.asked > 1


def test_what_arrives_between_two_looks_is_taken_in_by_the_second_while_the_store_is_maintained(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    stream.arrive("1.jsonl", lines(record("a"), record("b")))
    document = stream.document(batch_interval=INTERVAL)
    open_folder(HeldStore.of(document.table, Storage()))
    wishes = list[Upkeep]()
    control = Scripted(
        lambda: stream.arrive("2.jsonl", lines(record("b"), record("c"))),
        lambda: wishes.append(Upkeep(request_id=1)),
        lambda: stream.arrive("3.jsonl", lines(record("d"))),
        lambda: None,
        lambda: None,
    )
    upkeep = document.model_copy(update={"task": MaintainTask()})
    maintenance = Maintenance(lambda _: maintaining(Run.of(upkeep, spark, stream.heard)), _raise)
    control.between_batches = lambda: [maintenance.go_on(wish) for wish in wishes]

    outcome = run_ingest(Run.of(document, spark, stream.heard), control)

    assert maintenance.done.request_id == 1
    assert sum(compacted(stream.table.uri, name) for name in TABLES) >= 1
    assert stream.ids() == ["a", "b", "c", "d"]
    assert [row["position"] for row in stream.messages()] == [0, 1, 2, 3]
    assert (outcome.batches, outcome.counts.received, outcome.counts.duplicates) == (3, 5, 1)
    assert adds_up(outcome.totals)
    assert control.waits == [INTERVAL] * 6


def test_a_stop_is_heeded_after_the_batch_under_way(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    for name in "abc":
        stream.arrive(f"{name}.jsonl", lines(record(name)))
    document = stream.document(batch_interval=INTERVAL)
    open_folder(HeldStore.of(document.table, Storage()))

    outcome = run_ingest(Run.of(document, spark, stream.heard), StoppedAfterOneBatch())

    assert stream.ids() == ["a"]
    assert outcome.lag.files == 2
    assert stream.run().counts.stored == 2
