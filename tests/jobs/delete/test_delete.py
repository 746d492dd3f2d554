"""Deleting a store removes only its own objects, and never against a hold."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyarrow.fs import FileSelector
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Hold, Match
from messagestore_core.contract.run_document import DeleteTask, Resource, RunDocument
from messagestore_core.contract.run_report import DeleteOutcome, RunReport
from messagestore_core.contract.stores import FormerOwner, Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.claim import holding
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.delete import FOLDERS, OBJECTS, run_delete
from messagestore_jobs.driver.execute import execute
from support.external_writes import observing
from support.objectstore import ObjectStore
from support.purges import CrashError, crash_before_any_but, files_below
from support.stores import OWNER, add_history, make_store, message

AT = datetime(2026, 4, 6, tzinfo=UTC)
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")


def delete(table: Table, **task: Any) -> DeleteOutcome:
    document = RunDocument(run="delete-1", resource=RESOURCE, table=table, at=AT, task=DeleteTask(**task))
    return run_delete(HeldStore.of(table, Storage()), document, Silent())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A store with everything that runs may leave in it."""
    table = make_store(tmp_path / "store", [message(1)], [message(2)], remember_purged=timedelta(days=1))
    add_history(table.uri, [message(1)])
    states = ("_purges/p1/plan.json", "_replays/job-1/ended.json", "_cursors/default.out/cursor.json")
    states += ("_topics/id/topic.json", "_consumers/billing/consumer.json")
    for name in ("payloads/00000000000000000001", *states, "_index/manifest.json"):
        path = tmp_path / "store" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{}")
    (tmp_path / "store" / "_tombstone_key").write_bytes(b"key")
    (tmp_path / "store" / "_translators.json").write_bytes(b"[]")
    (tmp_path / "store" / "_ended.json").write_bytes(b"{}")
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


def test_a_deletion_that_broke_off_anywhere_is_completed(tmp_path: Path, table: Table) -> None:
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
    """A store on S3, written under an epoch and deleted by runs."""

    def __init__(self, store: ObjectStore, folder: Path, epoch: int) -> None:
        self._store = store
        self.bucket = f"deletes-{uuid4().hex}"
        store.make_bucket(self.bucket)
        make_store(folder, [message(1)])
        for name, content in files_below(f"file://{folder}").items():
            store.put(f"{self.bucket}/orders/{name}", content)
        with holding([self.store(OWNER, epoch)], "run"):
            pass

    def run(self, task: DeleteTask, epoch: int | None = None) -> RunReport:
        table = Table(uri=f"s3a://{self.bucket}/orders", owner=OWNER, epoch=epoch)
        storage = (self._store.entry(self.bucket),)
        document = RunDocument(run="run", resource=RESOURCE, table=table, at=AT, storage=storage, task=task)
        return execute(document, _no_spark, Silent(), 0, lambda: AT)

    def store(self, owner: Owner, epoch: int | None = None) -> HeldStore:
        """The store, as it would be an owner's."""
        table = Table(uri=f"s3a://{self.bucket}/orders", owner=owner, epoch=epoch)
        return HeldStore.of(table, Storage((self._store.entry(self.bucket),)))

    def names(self) -> list[str]:
        """All objects, and folders' own ones."""
        found = self._store.files().get_file_info(FileSelector(self.bucket, recursive=True))
        return sorted(one.path.removeprefix(f"{self.bucket}/") for one in found)


def test_a_store_on_s3_is_deleted_under_its_epoch(tmp_path: Path, object_store: ObjectStore) -> None:
    lake = Lake(object_store, tmp_path, epoch=5)
    object_store.put(f"{lake.bucket}/orders/notes.txt", b"mine")
    before = lake.names()
    older = lake.run(DeleteTask(), 4)
    assert (older.error.reason, lake.names()) == ("Fenced", before)
    held = lake.run(DeleteTask(holds=(Hold(name="audit", match=Match()),)), 6)
    assert (held.error.reason, lake.names()) == ("HoldActive", before)
    done = lake.run(DeleteTask(), 6)
    assert done.outcome.left == ("notes.txt",)
    assert lake.names() == ["orders", "orders/notes.txt"]
    again = lake.run(DeleteTask(), 7)
    assert again.outcome.deleted == ()


def test_of_a_deleted_store_on_s3_not_even_its_folder_is_left(tmp_path: Path, object_store: ObjectStore) -> None:
    lake = Lake(object_store, tmp_path, epoch=5)
    done = lake.run(DeleteTask(), 6)
    assert done.outcome.left == ()
    assert lake.names() == []


def test_a_store_that_is_created_as_the_last_object_is_deleted_loses_nothing(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that the marker refuses everybody else, and after it nothing more is deleted."""
    lake, refused, names = Lake(object_store, tmp_path, epoch=5), list[str](), Objects.names
    marker = f"{lake.bucket}/orders/_messagestore.json"

    def begin_after_a_look(objects: Objects, *given: Any, **more: Any) -> list[str]:
        found = names(objects, *given, **more)
        if found == ["_messagestore.json"] and not refused:
            with pytest.raises(TableRefusedError, match="belongs to another namespace") as error:
                check_folder(lake.store(Owner(namespace="shop", name="orders")))
            refused.append(str(error.value))
        return found

    def begin_after_the_end(name: str, moment: str) -> None:
        if (name, moment) == ("delete-_messagestore.json", "after"):
            object_store.put(marker, b"another's")

    monkeypatch.setattr(Objects, "names", begin_after_a_look)
    with observing(begin_after_the_end):
        assert lake.run(DeleteTask(), 6).error is None
    assert len(refused) == 1
    assert object_store.get(marker) == b"another's"


def test_a_store_on_this_machine_is_deleted_without_spark(table: Table) -> None:
    document = RunDocument(run="delete-1", resource=RESOURCE, table=table, at=AT, task=DeleteTask())
    done = execute(document, _no_spark, Silent(), 0, lambda: AT)
    assert (done.error, files_below(table.uri)) == (None, {})
