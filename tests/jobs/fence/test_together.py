"""Runs of all kinds on a store that somebody has damaged, restored or maintained with Spark."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask
from messagestore_core.contract.purge import EraseTask, PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import MaintainTask, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES
from messagestore_jobs.driver.execute import execute
from messagestore_operator.cli.main import app
from support.crash import forget_tables
from support.ingests import OWNER, RESOURCE, START, lines, record, write_file
from support.local_runs import tree
from support.long import few
from support.stores import positions

OLD = Rule(name="old", max_age=timedelta(days=400))


class Site:
    """A landing folder, a store, and the runs of an operator on it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.epoch = spark, folder, 0

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def path(self, name: str) -> str:
        """A table, as Spark's SQL names it."""
        return f"delta.`file://{self.store}/{name}`"

    def ingest(self, *names: str) -> RunReport:
        for name in names:
            write_file(self.folder / "landing" / f"{name}.jsonl", lines(record(name), b"{"), START - timedelta(days=1))
        return self.run(self.ingestion)

    @property
    def ingestion(self) -> IngestTask:
        return IngestTask(source_id="landing", source=FilesSource(uri=f"file://{self.folder}/landing"))

    def tasks(self) -> list[IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask]:
        """One of each kind of run."""
        sent = FilesDestination(uri=f"file://{self.folder}/sent")
        purges = [PurgeTask(mode=mode, rules=(OLD,)) for mode in ("DryRun", "Enforce")]
        replay = ReplayTask(job_id="again", destination=sent)
        return [replay, *purges, self.ingestion, EraseTask(), MaintainTask()]

    def run(self, task: IngestTask | PurgeTask | EraseTask | ReplayTask | MaintainTask) -> RunReport:
        self.epoch += 1
        reads = isinstance(task, ReplayTask) or (isinstance(task, PurgeTask) and task.mode == "DryRun")
        table = Table(uri=f"file://{self.store}", owner=OWNER, epoch=None if reads else self.epoch)
        document = RunDocument(run=f"run-{self.epoch}", resource=RESOURCE, table=table, at=START, task=task)
        return execute(document, lambda: self.spark, Silent(), 0, lambda: START)

    def refuses_all(self) -> list[str]:
        """The words with which each kind of run is refused; the store stays as it is."""
        before, told = tree(self.store), []
        for task in self.tasks():
            error = self.run(task).error
            assert error is not None, task
            assert error.reason == "TableRefused", error
            told.append(error.message)
        assert tree(self.store) == before
        return told


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two messages and two dead letters, of two runs."""
    site = Site(spark, tmp_path_factory.mktemp("together"))
    for name in ("m1", "m2"):
        assert site.ingest(name).error is None
    return site


@pytest.fixture
def site(made: Site, tmp_path: Path) -> Site:
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    copy = Site(made.spark, tmp_path)
    copy.epoch = made.epoch
    return copy


@pytest.mark.parametrize("name", few(TABLES, "messages"))
def test_no_run_goes_on_without_a_table(site: Site, name: str) -> None:
    shutil.rmtree(site.store / name)
    assert all(f"{site.store}/{name} is missing" in words for words in site.refuses_all())


def test_no_run_goes_on_with_messages_of_an_earlier_copy(site: Site) -> None:
    shutil.copytree(site.store / "messages", site.folder / "copy")
    assert site.ingest("m3").error is None
    assert site.run(MaintainTask()).error is None
    shutil.rmtree(site.store / "messages")
    shutil.copytree(site.folder / "copy", site.store / "messages")
    forget_tables(site.spark)
    assert all(f"{site.store}/messages is older than it was" in words for words in site.refuses_all())


CHANGES = [
    ("RESTORE TABLE {messages} TO VERSION AS OF 2", "RESTORE"),
    ("RESTORE TABLE {dead_letters} TO VERSION AS OF 1", "RESTORE"),
    ("DELETE FROM {messages} WHERE message_id = 'm1'", "DELETE"),
    ("UPDATE {files} SET `end` = 0", "UPDATE"),
    ("INSERT INTO {heads} SELECT 'order-1', 7, 7, NULL", "WRITE"),
]


@pytest.mark.parametrize(("change", "operation"), few(CHANGES, CHANGES[0], CHANGES[4]))
def test_no_run_goes_on_after_a_change_by_spark(site: Site, change: str, operation: str) -> None:
    site.spark.sql(change.format(**{name: site.path(name) for name in TABLES}))
    words = site.refuses_all()
    assert all(f"was changed by another writer: {operation} at version" in told for told in words)


@pytest.mark.long
def test_runs_go_on_after_spark_has_merged_files_and_removed_old_ones(site: Site) -> None:
    for name in ("messages", "dead_letters", "files"):
        site.spark.sql(f"OPTIMIZE {site.path(name)}")
    site.spark.sql(f"VACUUM {site.path('messages')}")
    assert site.ingest("m3").error is None
    assert positions(f"file://{site.store}") == [1, 2, 3]
    assert [site.run(task).error for task in site.tasks()] == [None] * len(site.tasks())


def repaired(site: Site) -> None:
    options = ["repair", str(site.store), "--accept", "--suspended"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    site.epoch += 1


@pytest.mark.long
def test_a_restore_of_all_tables_is_accepted_and_runs_go_on_from_there(site: Site) -> None:
    before = {name: table_version(site, name) for name in TABLES}
    totals = last_note(Store(f"file://{site.store}")).totals
    assert site.ingest("m3").error is None
    for name, version in before.items():
        site.spark.sql(f"RESTORE TABLE {site.path(name)} TO VERSION AS OF {version}")
    assert all("RESTORE" in words for words in site.refuses_all())
    repaired(site)
    assert last_note(Store(f"file://{site.store}")).totals == totals
    report = site.run(site.ingestion)
    assert isinstance(report.outcome, IngestOutcome), report.error
    # The files are read again, and the position of the third message is not given again.
    assert report.outcome.counts == IngestCounts(received=6, stored=1, duplicates=2, dead_lettered=3)
    assert report.outcome.totals == totals + report.outcome.counts
    assert positions(f"file://{site.store}") == [1, 2, 4]
    assert [site.run(task).error for task in site.tasks()] == [None] * len(site.tasks())


@pytest.mark.long
def test_after_deletion_vectors_and_a_restore_a_repair_lets_runs_go_on(site: Site) -> None:
    version = table_version(site, "messages")
    table = site.path("messages")
    site.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES('delta.enableDeletionVectors' = true)")
    site.spark.sql(f"DELETE FROM {table} WHERE message_id = 'm1'")
    assert all("what no run of this release writes" in words for words in site.refuses_all())
    site.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")
    assert all("what no run of this release writes" in words for words in site.refuses_all())
    repaired(site)
    assert site.ingest("m3").error is None
    assert positions(f"file://{site.store}") == [1, 2, 3]


def table_version(site: Site, name: str) -> int:
    return Store(f"file://{site.store}").table(name).version()
