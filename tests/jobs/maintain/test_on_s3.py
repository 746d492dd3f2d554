"""Maintenance on a real S3 server, under an epoch."""

from datetime import timedelta
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.claim import open_epoch
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.session import using
from support.external_writes import observing
from support.ingests import OWNER, START, lines, record
from support.long import few
from support.maintenance import all_rows, memory
from support.objectstore import ObjectStore

RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")


class Lake:
    """A store with one commit per file."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self.spark, self.store = spark, store
        self.bucket = f"maintains-{uuid4().hex}"
        self.uri = f"s3a://{self.bucket}/orders"
        store.make_bucket(self.bucket)

    def run(self, task: IngestTask | MaintainTask, epoch: int) -> RunReport:
        table = Table(uri=self.uri, owner=OWNER, epoch=epoch)
        at = START if isinstance(task, IngestTask) else None
        storage = (self.store.entry(self.bucket),)
        document = RunDocument(run=f"run-{epoch}", resource=RESOURCE, table=table, at=at, storage=storage, task=task)
        return execute(document, lambda: self.spark, Silent(), 0, lambda: START)

    def ingest(self, epoch: int) -> IngestOutcome:
        source = FilesSource(uri=f"s3a://{self.bucket}/landing", max_files_per_batch=1)
        outcome = self.run(IngestTask(source_id="landing", source=source, claim_check_bytes=30), epoch).outcome
        assert isinstance(outcome, IngestOutcome)
        return outcome

    def arrive(self, name: str, *records: bytes) -> None:
        self.store.put(f"{self.bucket}/landing/{name}", lines(*records))

    def told(self) -> tuple[object, object]:
        with using([self.store.entry(self.bucket)], self.spark) as storage:
            store = Store(self.uri, storage)
            return all_rows(store), memory(store)


@pytest.fixture
def lake(spark: SparkSession, object_store: ObjectStore) -> Lake:
    lake = Lake(spark, object_store)
    large = b'"' + b"x" * 50 + b'"'
    for i in range(3):
        lake.arrive(f"{i}.jsonl", record(f"m{i}"), record(f"n{i}", payload=large), b"garbage %d" % i)
    lake.ingest(5)
    return lake


def test_a_store_on_s3_is_compacted_and_cleaned_and_goes_on(lake: Lake) -> None:
    before = lake.told()
    outcome = lake.run(MaintainTask(deleted_file_retention=timedelta(0)), 6).outcome
    assert (outcome.files_before, outcome.files_after) == (3, 1)
    assert outcome.files_removed >= 3
    assert lake.told() == before
    lake.arrive("more.jsonl", record("m1"), record("m9"))
    went_on = lake.ingest(7)
    assert (went_on.counts.stored, went_on.counts.duplicates, went_on.totals.received) == (1, 1, 11)


WRITES = ["cluster-messages", "compact-files", "retention-heads", "vacuum-messages"]


@pytest.mark.parametrize("name", few(WRITES, "cluster-messages"))
def test_an_old_maintenance_is_refused_and_changes_nothing(lake: Lake, name: str) -> None:
    before = lake.told()

    def overtake(at: str, moment: str) -> None:
        if (at, moment) == (name, "before") and not overtaken:
            overtaken.append(at)
            with using([lake.store.entry(lake.bucket)], lake.spark) as storage:
                open_epoch(HeldStore(lake.uri, storage, epoch=7), "run-7")

    overtaken: list[str] = []
    with observing(overtake):
        report = lake.run(MaintainTask(deleted_file_retention=timedelta(0)), 6)
    assert report.error.reason == "Fenced"
    assert lake.told() == before
