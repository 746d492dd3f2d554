"""A store returns the current version of its tables, and opens a table only when it has changed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from messagestore_core.store import claim, handle
from messagestore_core.store.delta_log import CommitNote, bytes_added, empty_commit, files_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import local_path
from messagestore_core.store.schemas import MESSAGES, TABLES
from support.stores import add_messages, add_rows, make_store, message


@pytest.fixture
def store(tmp_path: Path) -> HeldStore:
    return HeldStore(make_store(tmp_path / "store", [message(1)]).uri)


def test_a_table_is_opened_once_while_nothing_is_committed(store: HeldStore) -> None:
    assert store.table("messages") is store.table("messages")
    assert store.opened("messages") is not store.opened("messages")


def test_a_new_commit_is_seen_and_a_table_that_was_handed_out_stays_at_its_version(store: HeldStore) -> None:
    before = store.table("messages")
    version = before.version()
    add_messages(store.uri, [message(2)])
    assert store.table("messages").version() == version + 1
    assert (before.version(), before.to_pyarrow_table().num_rows) == (version, 1)
    assert store.table("messages", version).version() == version


def test_a_commit_tells_the_bytes_that_it_has_added(store: HeldStore) -> None:
    add_messages(store.uri, [message(2)])
    sizes = files_of(store.table("messages"))["size_bytes"].to_pylist()
    version = store.version("messages")
    assert sum(bytes_added(store, "messages", version - back) for back in (0, 1)) == sum(sizes)
    assert [bytes_added(store, "messages", missing) for missing in (0, version + 1)] == [0, 0]


def test_a_transaction_is_looked_up_once_for_each_version_that_does_not_write_it(
    store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    look = DeltaTable.transaction_version
    monkeypatch.setattr(DeltaTable, "transaction_version", lambda table, name: asked.append(name) or look(table, name))
    assert [store.transaction("messages", name) for name in ("a", "b", "a", "b")] == [None] * 4
    commit(store, Transaction("a", 7))
    assert [store.transaction("messages", name) for name in ("a", "b", "a")] == [7, None, 7]
    assert asked == ["a", "b", "b"]


@pytest.mark.parametrize("others", [0, 1, 3, 4, 9])
def test_a_transaction_is_the_newest_one_however_many_commits_came_after_it(store: HeldStore, others: int) -> None:
    for number in (7, 8):
        commit(store, Transaction("a", number))
    for number in range(others):
        commit(store, Transaction("b", number))
    told = (store.opened("messages").transaction_version("a"), Store(store.uri).transaction("messages", "a"))
    assert told == (8, 8)
    assert store.transaction("messages", "a") == 8
    for number in range(others):
        commit(store, Transaction("b", number))
    commit(store, Transaction("a", 9))
    assert store.transaction("messages", "a") == 9
    assert store.transaction("messages", "b") == (others - 1 if others else None)


@pytest.mark.parametrize(
    "written", ['{"\\u0074xn":{"appId":"a","version":8}}', '{"txn":{"version":8,"appId":"\\u0061"}}']
)
def test_a_transaction_is_found_however_its_json_is_written(store: HeldStore, written: str) -> None:
    commit(store, Transaction("a", 7))
    version = store.table("messages").version() + 1
    store.objects("messages", "_delta_log").write(f"{version:020d}.json", written.encode())
    assert store.transaction("messages", "a") == store.opened("messages").transaction_version("a") == 8


def test_a_transaction_is_found_where_its_log_is_cut(store: HeldStore) -> None:
    commit(store, Transaction("a", 7))
    table = store.opened("messages")
    table.create_checkpoint()
    Path(local_path(store.path("messages", "_delta_log", f"{table.version():020d}.json"))).unlink()
    assert store.transaction("messages", "a") == 7


def commit(store: HeldStore, transaction: Transaction) -> None:
    table = store.opened("messages")
    empty_commit(table, "messages", CommitProperties(app_transactions=[transaction]))


def test_commits_from_before_the_log_was_cut_are_seen(store: HeldStore) -> None:
    log = Path(local_path(store.path("messages", "_delta_log")))
    store.table("messages")
    for number in range(2, 5):
        add_messages(store.uri, [message(number)])
    newest = store.opened("messages")
    newest.create_checkpoint()
    for path in log.glob("*.json"):
        if int(path.stem) < newest.version():
            path.unlink()
    assert store.table("messages").version() == newest.version()


def test_a_run_sees_before_its_next_commit_what_came_before_the_log_was_cut(store: HeldStore) -> None:
    held = HeldStore(store.uri, epoch=1)
    log = Path(local_path(store.path("messages", "_delta_log")))
    with claim.holding([held], "run-1"):
        with held.step("messages"):
            add_rows(held, "messages", pa.Table.from_pylist([message(2)], schema=MESSAGES), CommitNote(run="run-1"))
        before = held.table("messages").version()
        for number in range(3, 6):
            add_messages(store.uri, [message(number)])
        newest = store.opened("messages")
        newest.create_checkpoint()
        for path in log.glob("*.json"):
            if int(path.stem) < newest.version():
                path.unlink()
        assert held.open_to_write("messages").version() == newest.version() == before + 3


def test_a_table_whose_log_is_cut_behind_it_is_opened_again(store: HeldStore) -> None:
    add_messages(store.uri, [message(2)])
    before = store.table("messages")
    store.opened("messages").create_checkpoint()
    for path in Path(local_path(store.path("messages", "_delta_log"))).glob("*.json"):
        if int(path.stem) < before.version():
            path.unlink()
    assert store.table("messages").version() == before.version()
    assert store.table("messages").transaction_version("nobody") is None
    assert store.table("messages") is store.table("messages") is not before


def test_a_table_whose_checkpoint_is_replaced_while_it_is_opened_is_opened_again(
    store: HeldStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Path(local_path(store.path("messages", "_delta_log")))
    store.opened("messages").create_checkpoint()
    (there,) = log.glob("*.checkpoint.parquet")
    away, opens = log / "away", list[str]()

    def opened(uri: str, **options: Any) -> DeltaTable:
        """The first time it finds neither the checkpoint that was named nor the next one."""
        opens.append(uri)
        if len(opens) > 1:
            return DeltaTable(uri, **options)
        there.rename(away)
        try:
            return DeltaTable(uri, **options)
        finally:
            away.rename(there)

    monkeypatch.setattr(handle, "DeltaTable", opened)
    assert (store.opened("messages").version(), len(opens)) == (1, 2)


def test_a_table_that_comes_later_is_found(store: HeldStore) -> None:
    empty = HeldStore(f"{store.uri}-later")
    with pytest.raises(TableNotFoundError):
        empty.table("messages")
    Path(local_path(store.uri)).rename(local_path(empty.uri))
    assert empty.table("messages").version() == 1


def test_each_version_is_looked_at_before_it_is_handed_out(store: HeldStore, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(handle, "refuse_foreign", lambda uri, name, table: looked_at.append(table.version()))
    first = store.table("messages").version()
    add_messages(store.uri, [message(2)])
    looked_at.clear()
    store.table("messages")
    store.table("messages")
    assert looked_at == [first + 1]


def test_nobody_reads_many_commits_of_a_table_however_many_runs_there_were(store: HeldStore) -> None:
    for run in range(45):
        claim.open_epoch(HeldStore(store.uri, epoch=run + 1), f"run-{run}")
    for name in TABLES:
        log = Path(local_path(store.path(name, "_delta_log")))
        newest = max(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
        assert store.table(name).version() - newest < 20
