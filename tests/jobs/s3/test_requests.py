"""What a look and a small run ask of S3, counted by the server's access log."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.progress import Silent
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import check_for_work, execute
from messagestore_jobs.session import FOR_LITTLE, settings
from support.ended import end_run, small_run
from support.ingests import RESOURCE, START, lines, record
from support.objectstore import ObjectStore, running_object_store
from support.stores import make_store, message

BUCKET, RUNS, FILES, SMALL_RUNS = "requests", 25, 100, 15
MOST, MEAN = 145, 112
"""The most requests of a small run, beside Spark's, and of ten on average: some write a checkpoint or merge files."""
MOST_WITH_SPARK, MEAN_WITH_SPARK = 90, 80
"""The same of whole runs."""


class Lake:
    """A store on S3 whose server counts."""

    def __init__(self, folder: Path, server: ObjectStore, log: Path) -> None:
        self.server, self._log = server, log
        self._table = make_store(folder / BUCKET / "store", [message(1)])
        server.make_bucket(BUCKET)
        server.upload(folder / BUCKET, BUCKET)

    def document(self, epoch: int, source: str = "landing") -> RunDocument:
        return RunDocument(
            run=f"run-{epoch}",
            resource=RESOURCE,
            table=self._table.model_copy(update={"uri": f"s3a://{BUCKET}/store", "epoch": epoch}),
            at=START,
            storage=(self.server.entry(BUCKET),),
            task=IngestTask(source_id=source, source=FilesSource(uri=f"s3a://{BUCKET}/{source}")),
        )

    def requests(self, run: Callable[[], object]) -> int:
        before = self._log.stat().st_size
        run()
        return len(re.findall(r" s3_\w+ ", self._log.read_text()[before:]))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("requests")
    with running_object_store(access_log=folder / "access.log") as server:
        yield Lake(folder, server, folder / "access.log")


def test_a_small_run_asks_no_more_however_many_came_before(lake: Lake) -> None:
    asked = []
    for number in range(1, RUNS + 1):
        document = lake.document(number)
        asked.append(lake.requests(lambda: small_run(document, Storage(document.storage), number)))  # noqa: B023
    assert max(asked) <= MOST, asked
    assert sum(asked[-10:]) <= 10 * MEAN, asked


def test_an_idle_check_makes_few_requests_and_fewest_where_something_is_new(lake: Lake) -> None:
    document = lake.document(RUNS + 1)
    for number in range(FILES):
        lake.server.put(f"{BUCKET}/landing/{number}.jsonl", b"{}")
    end_run(document, Storage(document.storage))

    def look() -> bool:
        return check_for_work(document, lambda: START).report is not None

    assert look()
    assert lake.requests(look) <= 15
    lake.server.put(f"{BUCKET}/landing/new.jsonl", b"{}")
    assert not look()
    assert lake.requests(look) <= 5


def test_a_whole_small_run_makes_few_requests(lake: Lake, spark: SparkSession) -> None:
    made = []
    for number in range(SMALL_RUNS):
        records = [record(f"m{number}-{one}", streamName=f"order-{one}") for one in range(50)]
        lake.server.put(f"{BUCKET}/small/{number}.jsonl", lines(*records))
        document = lake.document(RUNS + 2 + number, "small")

        def run() -> None:
            idle = check_for_work(document, lambda: START)  # noqa: B023
            report = execute(document, lambda: spark, Silent(), 0, lambda: START, idle=idle)  # noqa: B023
            assert report.error is None, report.error
            assert report.outcome.counts.stored == 50

        with settings(spark, FOR_LITTLE):
            made.append(lake.requests(run))
    assert max(made[-10:]) <= MOST_WITH_SPARK, made
    assert sum(made[-10:]) <= 10 * MEAN_WITH_SPARK, made
