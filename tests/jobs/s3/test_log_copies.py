"""A small run copies the logs of its tables: its store is the same, and so are the fence and what others commit."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.claim import holding
from messagestore_core.store.delta_log import EPOCH, append_rows, files_of, last_note
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_core.store.folder import check_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LAST_CHECKPOINT, LOG
from messagestore_core.store.log_copy import CopiedTable, LogCopy
from messagestore_core.store.objects import Objects
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.store.storage import Storage
from messagestore_jobs.session import using
from support.objectstore import ObjectStore
from support.stores import make_store, message

BUCKET = "log-copies"
COMMITS = 23
"""Two checkpoints and some commits after them."""


class Lake:
    """A store on S3, and runs that add one message each."""

    def __init__(self, folder: Path, server: ObjectStore) -> None:
        self.storage = Storage((server.entry(BUCKET),))
        self.server, self.name = server, folder.name
        self.table = make_store(folder, [message(1)]).model_copy(update={"uri": f"s3a://{BUCKET}/{self.name}"})
        server.make_bucket(BUCKET)
        server.upload(folder, f"{BUCKET}/{self.name}")
        self.log = Objects(f"{self.table.uri}/messages/{LOG}", self.storage)

    def store(self, epoch: int, *, copies: bool = True) -> HeldStore:
        store = HeldStore.of(self.table.model_copy(update={"epoch": epoch}), self.storage)
        store.copies_logs = copies
        return store

    def add(self, epoch: int, *, copies: bool = True, first: Callable[[], object] = lambda: None) -> HeldStore:
        """A run that adds a message; `first` happens after its claim."""
        store = self.store(epoch, copies=copies)
        check_folder(store)
        with holding([store], f"run-{epoch}"):
            assert isinstance(store.table("messages"), CopiedTable) == copies
            before = last_note(store)
            first()
            note = before.model_copy(update={"totals": before.totals + IngestCounts(received=1, stored=1)})
            own, rows = store.commit_properties(note, Transaction("small", epoch)), one_row(epoch)
            with store.step("messages"):
                store.commit("messages", lambda table: append_rows(table, "messages", rows, own))
            assert store.transaction("messages", "small") == epoch
        return store

    def original(self) -> DeltaTable:
        return Store(self.table.uri, self.storage).table("messages")

    def ids(self) -> list[str]:
        return sorted(scan(self.original(), ["message_id"]).read_all()["message_id"].to_pylist())


def one_row(epoch: int) -> pa.Table:
    return pa.Table.from_pylist([message(100 + epoch)], schema=MESSAGES)


@pytest.fixture
def lake(tmp_path: Path, object_store: ObjectStore) -> Lake:
    return Lake(tmp_path / tmp_path.name, object_store)


def test_runs_by_copies_leave_the_store_that_other_runs_leave(
    tmp_path: Path, object_store: ObjectStore, spark: SparkSession
) -> None:
    copied, plain = (Lake(tmp_path / f"{tmp_path.name}-{name}", object_store) for name in ("copied", "plain"))
    for epoch in range(1, COMMITS):
        copied.add(epoch)
        plain.add(epoch, copies=False)
    varying = {"path", "modification_time"}
    said: list[list[dict[str, Any]]] = [
        [
            {name: value for name, value in one.items() if name not in varying}
            for one in files_of(lake.original()).to_pylist()
        ]
        for lake in (copied, plain)
    ]
    assert said[0] == said[1]
    names = [sorted(name for name in lake.log.names() if not name.endswith("/")) for lake in (copied, plain)]
    assert names[0] == names[1]
    assert [name for name in names[0] if "checkpoint.parquet" in name]
    totals = [last_note(Store(lake.table.uri, lake.storage)).totals for lake in (copied, plain)]
    assert totals[0] == totals[1]
    with using((copied.server.entry(BUCKET),), spark):
        rows = spark.read.format("delta").load(f"{copied.table.uri}/messages")
        assert sorted(row["message_id"] for row in rows.select("message_id").collect()) == plain.ids()


def before_the_entry(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something once, when the files of the next commit by a copy are written and its entry is not."""
    create = Objects.create

    def meanwhile(self: Objects, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Objects, "create", create)
        do()
        return create(self, name, content)

    monkeypatch.setattr(Objects, "create", meanwhile)


def of_somebody_else(lake: Lake) -> None:
    write_deltalake(lake.original(), MESSAGES.empty_table(), mode="append")


def test_a_commit_of_others_before_the_runs_own_is_kept(lake: Lake) -> None:
    store = lake.add(1, first=lambda: of_somebody_else(lake))
    assert store.copies_logs
    assert lake.ids() == ["m1", "m101"]


def test_after_a_commit_of_others_right_before_its_own_a_run_goes_on_without_copies(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lake.add(1, first=lambda: before_the_entry(monkeypatch, lambda: of_somebody_else(lake)))
    assert not store.copies_logs
    assert lake.ids() == ["m1", "m101"]
    table = lake.original()
    entries = [Store(lake.table.uri, lake.storage).entry("messages", table.version() - back) for back in (0, 1, 2)]
    assert [one.tables is not None for one in entries if one] == [True, False, True]
    lake.add(2)
    assert lake.ids() == ["m1", "m101", "m102"]


@pytest.mark.parametrize("copies", [True, False])
def test_a_newer_run_right_before_a_commit_fences_it(lake: Lake, monkeypatch: pytest.MonkeyPatch, copies: bool) -> None:
    def hand_over() -> None:
        lake.add(2, copies=copies)

    with pytest.raises(FencedError):
        lake.add(1, first=lambda: before_the_entry(monkeypatch, hand_over))
    assert lake.ids() == ["m1", "m102"]


def test_a_claim_of_somebody_else_right_before_the_runs_own_is_seen(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lake.store(1)
    check_folder(store)
    before_the_entry(monkeypatch, lambda: lake.add(2, copies=False))
    with pytest.raises(FencedError), holding([store], "run-1"):
        pass
    store = lake.store(3)
    check_folder(store)
    before_the_entry(monkeypatch, lambda: of_somebody_else(lake))
    with holding([store], "run-3"):
        assert store.transaction("messages", EPOCH) == 3
    assert lake.ids() == ["m1", "m102"]


def test_a_newer_run_meanwhile_fences_it(lake: Lake) -> None:
    def hand_over() -> None:
        lake.add(2, copies=False)

    with pytest.raises(FencedError):
        lake.add(1, first=hand_over)
    assert lake.ids() == ["m1", "m102"]


def test_a_run_that_ends_between_the_files_of_a_commit_and_its_entry_has_committed_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off() -> None:
        raise ConnectionError("cut off")

    with pytest.raises(ConnectionError):
        lake.add(1, first=lambda: before_the_entry(monkeypatch, cut_off))
    assert lake.ids() == ["m1"]
    lake.add(2)
    assert lake.ids() == ["m1", "m102"]


def test_what_reads_rows_to_commit_is_committed_by_the_table_itself(lake: Lake) -> None:
    store = lake.store(1)
    check_folder(store)
    with holding([store], "run-1"):
        before = last_note(store)
        with store.step("messages"):
            store.update_rows("messages", {"status": "'COMPLETED'"}, "message_id = 'm1'")
        assert not isinstance(store.table("messages"), CopiedTable)
        assert before.totals.stored == 1
    assert scan(lake.original(), ["status"]).read_all()["status"].to_pylist() == ["COMPLETED"]


def test_rows_are_read_where_they_are(lake: Lake) -> None:
    lake.add(1)
    store = lake.store(2)
    table = store.table("messages")
    assert isinstance(table, CopiedTable)
    assert sorted(table.to_pyarrow_table(columns=["message_id"])["message_id"].to_pylist()) == ["m1", "m101"]
    assert len(table.history()) == table.version() + 1


def test_a_copy_follows_the_table(lake: Lake) -> None:
    lake.add(1)
    copied = LogCopy(f"{lake.table.uri}/messages", lake.storage).open()
    assert copied is not None
    lake.add(2)
    copied.update_incremental()
    assert copied.version() == lake.original().version()
    assert copied.get_add_actions().num_rows == 3


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"version": -1}', b'{"version": 9}', b'{"version": 1e300}', b'["version"]', b"\xff"]
)
def test_a_mark_of_the_last_checkpoint_that_is_none_is_left_to_delta(lake: Lake, content: bytes) -> None:
    lake.log.write(LAST_CHECKPOINT, content)
    store = lake.store(1)
    table = store.table("messages")
    assert (table.version(), table.get_add_actions().num_rows) == (lake.original().version(), 1)


def test_objects_of_others_in_a_log_are_not_copied(lake: Lake) -> None:
    version = lake.original().version()
    for name in (f"x/{version + 1:020d}.json", f"{version + 1:020d}.json.tmp", "%2e%2e/c.json", " "):
        lake.server.put(f"{BUCKET}/{lake.name}/messages/{LOG}/{name}", b"{}")
    table = lake.store(1).table("messages")
    assert isinstance(table, CopiedTable)
    assert table.version() == version


def test_without_room_on_this_machine_nothing_is_copied(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert not isinstance(lake.store(1).table("messages"), CopiedTable)
    lake.add(1, copies=False)
    assert lake.ids() == ["m1", "m101"]


def test_a_missing_table_is_missed_as_without_copies(lake: Lake) -> None:
    assert LogCopy(f"{lake.table.uri}/nothing", lake.storage).open() is None
    with pytest.raises(TableNotFoundError):
        lake.store(1).table("nothing")


def test_a_copy_goes_with_the_store_that_made_it(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "copies"
    here.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(here))
    store = lake.add(1)
    assert list(here.iterdir())
    del store
    gc.collect()
    assert list(here.iterdir()) == []
