"""Deleting a store removes only its own objects, and never against a hold."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import DeleteTask, Hold, IngestTask, Match, Resource, RunDocument
from messagestore_core.contract.run_report import DeleteOutcome, RunReport
from messagestore_core.contract.stores import FormerOwner, Owner, Table
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.storage import Storage
from messagestore_jobs.delete.job import FOLDERS, OBJECTS, run_delete
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.progress import Silent
from support.external_writes import observing
from support.ingests import lines, record
from support.objectstore import ObjectStore
from support.purges import CrashError, crash_before_any_but, files_below
from support.stores import OWNER, make_store, message

AT = datetime(2026, 4, 6, tzinfo=UTC)
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")


def delete(table: Table, **task: Any) -> DeleteOutcome:
    document = RunDocument(run="delete-1", resource=RESOURCE, table=table, at=AT, task=DeleteTask(**task))
    return run_delete(HeldStore.of(table, Storage()), document, Silent())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A store with everything that runs may leave in it."""
    table = make_store(tmp_path / "store", [message(1)], [message(2)], remember_purged=timedelta(days=1))
    of_runs = ("_purges/p1/plan.json", "_replays/job-1/ended.json", "_index/manifest.json")
    for name in ("payloads/00000000000000000001", *of_runs):
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{}")
    (tmp_path / "store" / "_tombstone_key").write_bytes(b"key")
    (tmp_path / "store" / "_translators.json").write_bytes(b"[]")
    (tmp_path / "store" / "_messagestore.json.partial").write_bytes(b"{")
    return table


def test_everything_of_a_store_is_deleted(tmp_path: Path, table: Table) -> None:
    outcome = delete(table)
    assert set(outcome.deleted) == {*FOLDERS, *OBJECTS}
    assert outcome.left == ()
    assert list((tmp_path / "store").rglob("*")) == []


def test_the_marker_is_deleted_last(tmp_path: Path, table: Table) -> None:
    left: list[list[str]] = []
    with observing(lambda name, moment: left.append(sorted(p.name for p in (tmp_path / "store").iterdir()))):
        delete(table)
    assert left[-2] == ["_messagestore.json", "_messagestore.json.partial"]


def test_nothing_else_in_the_folder_is_touched(tmp_path: Path, table: Table) -> None:
    (tmp_path / "store" / "notes.txt").write_text("mine")
    (tmp_path / "store" / "messages_backup").mkdir()
    (tmp_path / "store" / "messages_backup" / "part-0.parquet").write_text("mine")
    assert delete(table).left == ("messages_backup", "notes.txt")
    assert files_below(f"file://{tmp_path}/store") == {
        "messages_backup/part-0.parquet": b"mine",
        "notes.txt": b"mine",
    }
    assert delete(table).deleted == ()


def test_a_store_that_is_gone_is_deleted(tmp_path: Path) -> None:
    assert delete(Table(uri=f"file://{tmp_path}/nowhere", owner=OWNER)) == DeleteOutcome()


def test_a_store_of_another_owner_is_refused(tmp_path: Path, table: Table) -> None:
    before = files_below(table.uri)
    heir = {"owner": Owner(namespace="default", name="other"), "adopt_from": (FormerOwner(namespace="default"),)}
    other = table.model_copy(update=heir)
    with pytest.raises(TableRefusedError, match="belongs to MessageStream default/orders"):
        delete(other)
    stranger = table.model_copy(update={"owner": Owner(namespace="shop", name="orders")})
    with pytest.raises(TableRefusedError, match="belongs to another namespace's MessageStream; not deleted"):
        delete(stranger)
    assert files_below(table.uri) == before


@pytest.mark.parametrize("marker", [None, b"something", b'{"formatVersion": 99, "owner": {"namespace": "default"}}'])
def test_a_folder_whose_marker_is_gone_or_not_ours_is_refused(tmp_path: Path, table: Table, marker: bytes) -> None:
    path = tmp_path / "store" / "_messagestore.json"
    path.unlink() if marker is None else path.write_bytes(marker)
    before = files_below(table.uri)
    with pytest.raises(TableRefusedError):
        delete(table)
    assert files_below(table.uri) == before


def test_a_hold_keeps_the_store(table: Table) -> None:
    before = files_below(table.uri)
    holds = (
        Hold(name="over", match=Match(), until=AT),
        Hold(name="audit-2026", match=Match(), until=AT + timedelta(days=1)),
    )
    with pytest.raises(RunFailedError, match="held by audit-2026; nothing was deleted") as error:
        delete(table, holds=holds)
    assert error.value.reason == "HoldActive"
    assert files_below(table.uri) == before
    assert delete(table, holds=holds[:1]).left == ()


def test_cut_off_anywhere_it_is_carried_on(tmp_path: Path, table: Table) -> None:
    (tmp_path / "store" / "notes.txt").write_text("mine")
    crashed: list[str] = []
    writes = {"audit-delete", *(f"delete-{name}" for name in (*FOLDERS, *OBJECTS))}
    while len(crashed) < len(writes):
        with pytest.raises(CrashError), observing(crash_before_any_but(crashed)):
            delete(table)
    assert set(crashed) == writes
    assert delete(table).left == ("notes.txt",)


def _no_spark() -> SparkSession:
    raise AssertionError("a deletion needs no Spark")


class Lake:
    """A store on S3, written and deleted by runs."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self._spark, self._store = spark, store
        self.bucket = f"deletes-{uuid4().hex}"
        store.make_bucket(self.bucket)

    def run(self, task: IngestTask | DeleteTask, epoch: int | None = None) -> RunReport:
        table = Table(uri=f"s3a://{self.bucket}/orders", owner=OWNER, epoch=epoch)
        storage = (self._store.entry(self.bucket),)
        document = RunDocument(run="run", resource=RESOURCE, table=table, at=AT, storage=storage, task=task)
        session = _no_spark if isinstance(task, DeleteTask) else lambda: self._spark
        return execute(document, session, Silent(), 0, lambda: AT)

    def ingest(self, epoch: int) -> None:
        self._store.put(f"{self.bucket}/landing/a.jsonl", lines(record("m1"), b"garbage"))
        source = FilesSource(uri=f"s3a://{self.bucket}/landing")
        assert self.run(IngestTask(source_id="landing", source=source), epoch).error is None

    def names(self) -> list[str]:
        return [name for name in self._store.names(self.bucket) if not name.startswith("landing/")]


def test_a_store_on_s3_is_deleted_under_its_epoch(spark: SparkSession, object_store: ObjectStore) -> None:
    lake = Lake(spark, object_store)
    lake.ingest(epoch=5)
    object_store.put(f"{lake.bucket}/orders/notes.txt", b"mine")
    before = lake.names()
    older = lake.run(DeleteTask(), 4)
    assert older.error is not None
    assert (older.error.reason, lake.names()) == ("Fenced", before)
    held = lake.run(DeleteTask(holds=(Hold(name="audit", match=Match()),)), 6)
    assert held.error is not None
    assert (held.error.reason, lake.names()) == ("HoldActive", before)
    done = lake.run(DeleteTask(), 6)
    assert isinstance(done.outcome, DeleteOutcome)
    assert done.outcome.left == ("notes.txt",)
    assert lake.names() == ["orders/notes.txt"]
    again = lake.run(DeleteTask(), 7)
    assert isinstance(again.outcome, DeleteOutcome)
    assert again.outcome.deleted == ()


def test_of_a_deleted_store_on_s3_not_even_its_folder_is_left(spark: SparkSession, object_store: ObjectStore) -> None:
    lake = Lake(spark, object_store)
    lake.ingest(epoch=5)
    done = lake.run(DeleteTask(), 6)
    assert isinstance(done.outcome, DeleteOutcome)
    assert done.outcome.left == ()
    assert lake.names() == []


def test_a_store_on_this_machine_is_deleted_without_spark(table: Table) -> None:
    document = RunDocument(run="delete-1", resource=RESOURCE, table=table, at=AT, task=DeleteTask())
    done = execute(document, _no_spark, Silent(), 0, lambda: AT)
    assert (done.error, files_below(table.uri)) == (None, {})
