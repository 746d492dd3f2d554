"""Of two runs with the same store, only the one with the newer epoch can write it, whenever the other wakes up."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts, IngestTask
from messagestore_core.contract.purge import PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store import fence, folder
from messagestore_core.store.claim import holding, open_epoch
from messagestore_core.store.delta_log import CommitNote, append_rows, epoch_of, last_note, note_at, table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import EVERY_TABLE, TABLES, properties
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.rows import messages
from messagestore_jobs.session import FOR_LITTLE, settings, using
from support.external_writes import observing
from support.ingests import OWNER, Stream, lines, record
from support.interception import Interception, intercepting
from support.long import few
from support.objectstore import ObjectStore
from support.stores import add_messages, make_store, message

AT = datetime(2026, 4, 6, tzinfo=UTC)
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")


@dataclass
class Lake:
    """A store on S3, which Spark reaches through an intercepting proxy, and everything else directly."""

    spark: SparkSession
    store: ObjectStore
    bucket: str
    way: Interception

    @property
    def uri(self) -> str:
        return f"s3a://{self.bucket}/orders"

    def arrive(self, name: str, *records: bytes) -> None:
        self.store.put(f"{self.bucket}/landing/{name}", lines(*records))

    def run(self, epoch: int | None, task: IngestTask | PurgeTask | None = None) -> RunReport:
        ingest = IngestTask(source_id="landing", source=FilesSource(uri=f"s3a://{self.bucket}/landing"))
        document = RunDocument(
            run=f"run-{epoch}",
            resource=RESOURCE,
            table=Table(uri=self.uri, owner=OWNER, epoch=epoch),
            at=AT,
            storage=(self.store.entry(self.bucket),),
            task=task or ingest,
        )
        return execute(document, lambda: self.spark, Silent(), 0, lambda: AT)

    def open_epoch(self, epoch: int) -> None:
        """Claim the store as another process would, whose run begins now."""
        with using([self.store.entry(self.bucket)], self.spark) as storage:
            open_epoch(HeldStore(self.uri, storage, epoch=epoch), f"run-{epoch}")

    def ids(self) -> list[str]:
        with using([self.store.entry(self.bucket)], self.spark) as storage:
            return sorted(HeldStore(self.uri, storage).table("messages").to_pyarrow_table()["message_id"].to_pylist())

    def version(self) -> int:
        with using([self.store.entry(self.bucket)], self.spark) as storage:
            return table_state(HeldStore(self.uri, storage)).version

    def commit_of_messages(self, version: int) -> str:
        """The request that creates a version."""
        return f"PUT /{self.bucket}/orders/messages/_delta_log/{version:020d}.json"

    def lead_spark_through_the_interception(self) -> None:
        """Open the file system through the proxy first: Hadoop keeps it as it was first opened."""
        with using([self.store.entry(self.bucket).model_copy(update={"endpoint": self.way.endpoint})], self.spark):
            configuration = self.spark._jsc.hadoopConfiguration()
            self.spark._jvm.org.apache.hadoop.fs.Path(self.uri).getFileSystem(configuration)


@pytest.fixture
def lake(spark: SparkSession, object_store: ObjectStore) -> Iterator[Lake]:
    bucket = f"epochs-{uuid4().hex}"
    object_store.make_bucket(bucket)
    with intercepting(object_store.endpoint) as way:
        lake = Lake(spark, object_store, bucket, way)
        lake.lead_spark_through_the_interception()
        lake.arrive("a.jsonl", record("m1"), b"garbage")
        assert lake.run(5).error is None
        yield lake


def refused(report: RunReport) -> bool:
    """Whether the run ended with the error that it was fenced."""
    assert report.error is not None, "the run went through"
    assert report.error.reason == "Fenced", report.error
    return "has been handed to a newer run (epoch 6, this run has 5)" in report.error.message


def test_an_old_run_that_was_held_within_its_commit_is_refused(lake: Lake) -> None:
    lake.arrive("b.jsonl", record("m2"))
    version = lake.version()
    # Its log store has read all commits and is about to create the next one.
    lake.way.before(lake.commit_of_messages(version + 1), lambda: lake.open_epoch(6))
    assert refused(lake.run(5))
    assert not lake.way.armed
    assert lake.ids() == ["m1"]
    assert lake.version() == version + 1


def test_an_old_small_run_that_was_held_within_its_commit_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.arrive("b.jsonl", record("m2"))
    version = lake.version()

    def held(*commit: Any, **how: Any) -> None:
        # The run has opened the table and seen its own epoch.
        lake.open_epoch(6)
        append_rows(*commit, **how)

    monkeypatch.setattr(messages, "append_rows", held)
    with settings(lake.spark, FOR_LITTLE):
        assert refused(lake.run(5))
    assert lake.ids() == ["m1"]
    assert lake.version() == version + 1


def test_an_old_run_that_wakes_up_after_the_new_one_has_committed_is_refused(lake: Lake) -> None:
    lake.arrive("b.jsonl", record("m2"))
    assert lake.run(6).state == "Succeeded"
    lake.arrive("c.jsonl", record("m3"))
    version = lake.version()
    assert refused(lake.run(5))
    assert lake.version() == version
    assert lake.run(6).state == "Succeeded"
    assert lake.ids() == ["m1", "m2", "m3"]


@pytest.mark.parametrize("name", few(["heads", "delete-days", "delete-rows", "audit-purge"], "delete-rows"))
def test_an_old_purge_is_refused_wherever_it_slept(lake: Lake, name: str) -> None:
    """delta-rs removes whole days, Spark single rows."""
    lake.arrive("b.jsonl", record("m2", status="COMPLETED"))
    assert lake.run(5).state == "Succeeded"
    rule = Rule(name="some", statuses=("COMPLETED",) if name != "delete-days" else ("COMPLETED", "RECEIVED"))
    purge = PurgeTask(mode="Enforce", rules=(rule,))
    with observing(once(name, lambda: lake.open_epoch(6))):
        assert refused(lake.run(5, purge))
    assert lake.ids() == (["m1", "m2"] if name != "audit-purge" else ["m1"])


@pytest.mark.long
def test_an_old_run_that_slept_between_its_check_and_its_commit_is_refused_and_the_new_one_ends_its_work(
    lake: Lake,
) -> None:
    lake.arrive("b.jsonl", record("m2"), b"more garbage")
    version = lake.version()
    with observing(once("messages", lambda: lake.open_epoch(6))):
        assert refused(lake.run(5))
    assert lake.ids() == ["m1"]
    assert lake.version() == version + 1
    outcome = lake.run(6).outcome
    assert outcome.totals == IngestCounts(received=4, stored=2, dead_lettered=2)
    assert outcome.table.epoch == 6
    assert lake.ids() == ["m1", "m2"]


def test_a_run_without_an_epoch_is_not_let_into_an_operators_store(lake: Lake) -> None:
    lake.arrive("b.jsonl", record("m2"))
    version = lake.version()
    error = lake.run(None).error
    assert (error.reason, "this run has no epoch" in error.message) == ("Fenced", True)
    assert lake.version() == version
    dry = lake.run(None, PurgeTask(rules=(Rule(name="all", statuses=("RECEIVED",)),)))
    assert dry.state == "Succeeded"


def test_the_same_grant_may_be_used_again_and_is_claimed_once(lake: Lake) -> None:
    version = lake.version()
    assert lake.run(5).state == "Succeeded"
    assert lake.version() == version


def test_every_commit_tells_its_epoch(lake: Lake, spark: SparkSession, object_store: ObjectStore) -> None:
    with using([object_store.entry(lake.bucket)], spark) as storage:
        store = HeldStore(lake.uri, storage)
        told = [commit.get("userMetadata") for commit in store.table("messages").history()]
        assert {CommitNote.model_validate_json(text or "").epoch for text in told} == {5}
        assert {name: epoch_of(store.table(name)) for name in TABLES} == dict.fromkeys(TABLES, 5)


def test_a_claim_carries_on_the_totals_of_a_commit_that_came_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    overtaking = [lambda: add_messages(table.uri, [message(2)])]

    def read_and_be_overtaken(store: Store, opened: DeltaTable) -> CommitNote:
        note = note_at(store, opened)
        if overtaking:
            overtaking.pop()()
        return note

    monkeypatch.setattr(fence, "note_at", read_and_be_overtaken)
    open_epoch(HeldStore(table.uri, epoch=6), "run-6")
    note = last_note(HeldStore(table.uri))
    assert (note.run, note.epoch, note.totals) == ("run-6", 6, IngestCounts(received=2, stored=2))
    assert HeldStore(table.uri).table("messages").version() == 3


@pytest.mark.parametrize("name", TABLES)
def test_a_commit_by_delta_rs_is_refused_once_a_newer_epoch_is_there(tmp_path: Path, name: str) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    store = HeldStore(table.uri, epoch=5)
    rows = pa.table({field.name: pa.nulls(0, field.type) for field in TABLES[name]}, schema=TABLES[name])

    def write_after_a_claim() -> None:
        with holding([store], "run-5"):
            opened = store.open_to_write(name)
            open_epoch(HeldStore(table.uri, epoch=6), "run-6")
            with pytest.raises(CommitFailedError):
                write_deltalake(opened, rows, mode="append", commit_properties=store.commit_properties())
            store.open_to_write(name)

    with pytest.raises(RunFailedError, match="newer run") as error:
        write_after_a_claim()
    assert error.value.reason == "Fenced"


def test_an_object_is_not_written_once_a_newer_epoch_is_known(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)]).model_copy(update={"epoch": 5})
    wrote = []
    open_epoch(HeldStore.of(table, Storage()), "run-5")

    def write_after_a_claim() -> None:
        store = HeldStore.of(table, Storage())
        with holding([store], "run-5"):
            open_epoch(HeldStore(table.uri, epoch=6), "run-6")
            # A run checks the table once a second.
            time.sleep(1.1)
            with store.step("claim-check"):
                wrote.append("an object")

    with pytest.raises(RunFailedError, match="newer run"):
        write_after_a_claim()
    assert wrote == []


def test_a_store_of_an_earlier_form_is_changed_by_none_but_the_run_that_has_claimed_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1")))
    with monkeypatch.context() as earlier:
        as_an_earlier_release(earlier)
        open_folder(HeldStore.of(stream.table, Storage()))
    open_epoch(HeldStore(stream.table.uri, epoch=6), "run-6")
    before = forms(stream.table.uri)
    assert before["tombstones"] == (["message_key", "erased_at", "run"], {}, 6)

    def ingest(epoch: int | None, task: PurgeTask | None = None) -> RunReport:
        document = stream.document()
        table = document.table.model_copy(update={"epoch": epoch})
        document = document.model_copy(update={"table": table, "task": task or document.task})
        return execute(document, lambda: spark, Silent(), 0, lambda: AT)

    overtaken = ingest(5)
    assert overtaken.error.reason == "Fenced"
    assert ingest(None, PurgeTask(rules=(Rule(name="all", statuses=("RECEIVED",)),))).error is None
    assert (forms(stream.table.uri), marked(tmp_path)) == (before, 1)
    with observing(once("upgrade-tombstones", lambda: open_epoch(HeldStore(stream.table.uri, epoch=8), "run-8"))):
        report = ingest(7)
    assert report.error.reason == "Fenced"
    assert forms(stream.table.uri)["tombstones"] == (*before["tombstones"][:2], 8)
    assert ingest(8).error is None
    assert marked(tmp_path) == folder.FORMAT_VERSION
    assert forms(stream.table.uri) == {name: (TABLES[name].names, properties(name), 8) for name in TABLES}
    assert last_note(HeldStore(stream.table.uri)).totals == IngestCounts(received=1, stored=1)


def as_an_earlier_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create stores as an earlier release did: with fewer columns, and without a property."""
    monkeypatch.setattr(folder, "FORMAT_VERSION", 1)
    monkeypatch.setattr(folder, "properties", lambda name: {})
    for name, columns in (("messages", {"hmac", "scrubs", "record"}), ("tombstones", {"global_position"})):
        kept = [field for field in TABLES[name] if field.name not in columns]
        for tables in (TABLES, EVERY_TABLE):
            monkeypatch.setitem(tables, name, pa.schema(kept))


def forms(uri: str) -> dict[str, tuple[list[str], dict[str, str], int | None]]:
    """Each table's columns, properties and newest epoch."""
    opened = {name: DeltaTable(f"{uri}/{name}") for name in TABLES}
    return {
        name: ([field.name for field in table.schema().fields], table.metadata().configuration, epoch_of(table))
        for name, table in opened.items()
    }


def marked(tmp_path: Path) -> int:
    return int(json.loads((tmp_path / "store" / folder.MARKER).read_text())["formatVersion"])


def test_a_store_without_epochs_is_written_as_ever(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    with holding([HeldStore(table.uri)], "run-1"):
        assert HeldStore(table.uri).commit_properties().app_transactions is None
    assert table_state(HeldStore(table.uri)).epoch is None
    assert HeldStore(table.uri).table("messages").version() == 1


def test_a_local_store_can_be_claimed_too(tmp_path: Path) -> None:
    table = Table(uri=f"file://{tmp_path}/store", owner=OWNER, epoch=3)
    open_folder(HeldStore(table.uri, owner=OWNER))
    with holding([HeldStore.of(table, Storage())], "run-3"):
        assert table_state(HeldStore(table.uri)).epoch == 3
    with (
        pytest.raises(RunFailedError, match="epoch 3, this run has 2"),
        holding([HeldStore(table.uri, epoch=2)], "run-2"),
    ):
        pass


def once(name: str, act: Callable[[], object]) -> Callable[[str, str], None]:
    """An observer that acts before the first external write with a name: after the run's own check of the epochs."""
    waiting = [act]

    def observer(at: str, moment: str) -> None:
        if (at, moment) == (name, "before") and waiting:
            waiting.pop()()

    return observer
