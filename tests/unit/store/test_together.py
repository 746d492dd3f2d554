"""A store of which one table is gone, another, older than the others know it, or changed by somebody, is refused."""

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from messagestore_core.store.audit import AuditEntry, add_audit
from messagestore_core.store.claim import open_epoch
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.folder import FORMAT_VERSION, check_folder, open_folder
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.layout import MARKER
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import add_tombstones
from support.ingests import RESOURCE
from support.local_runs import tree
from support.stores import OWNER, START, add_dead_letters, add_messages, make_store, message

FIRST = [name for name in TABLES if name != "pending_updates"]
"""The tables that stores of each release have."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two messages and a dead letter, written by three runs of an operator."""
    folder = tmp_path_factory.mktemp("together") / "store"
    table = make_store(folder, [message(1)])
    run(folder, 1)
    add_messages(table.uri, [message(2)])
    add_dead_letters(table.uri, [{"failed_at": START, "raw": b"x"}])
    run(folder, 2)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def opened(folder: Path, epoch: int | None = None) -> HeldStore:
    return HeldStore(f"file://{folder}", owner=OWNER, epoch=epoch)


def run(folder: Path, epoch: int) -> None:
    """A run that claims the store, as the operator's do."""
    store = opened(folder, epoch)
    check_folder(store)
    open_epoch(store, f"run-{epoch}")
    open_folder(store)


def refused(folder: Path) -> str:
    """The words of a refusal, by which nothing was changed."""
    before = tree(folder)
    with pytest.raises(TableRefusedError) as caught:
        check_folder(opened(folder))
    assert tree(folder) == before
    assert "nothing was written" in str(caught.value)
    assert "`messagestore repair`" in str(caught.value)
    return str(caught.value)


def entries(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the commits on a table say about themselves, oldest first."""
    logs = sorted((folder / name / "_delta_log").glob("*.json"))
    return [json.loads(log.read_bytes().splitlines()[0])["commitInfo"] for log in logs]


def strip_notes(folder: Path, format_version: int) -> None:
    """Make the store one of an earlier release."""
    for log in folder.glob("*/_delta_log/*.json"):
        actions = [json.loads(line) for line in log.read_bytes().splitlines()]
        if log.parent.parent.name == "messages":
            said = json.loads(actions[0]["commitInfo"].get("userMetadata") or "{}")
            note = {name: value for name, value in said.items() if name != "tables"}
            actions[0]["commitInfo"]["userMetadata"] = json.dumps(note)
        else:
            actions[0]["commitInfo"].pop("userMetadata", None)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (folder / MARKER).write_text(json.dumps({"formatVersion": format_version, "owner": OWNER.model_dump()}))


@pytest.mark.parametrize("name", TABLES)
def test_each_commit_names_the_tables_and_what_they_had_reached(folder: Path, name: str) -> None:
    store = opened(folder)
    ids = {one: store.table(one).metadata().id for one in TABLES}
    notes = [json.loads(info["userMetadata"]) for info in entries(folder, name)]
    assert all({one: at["id"] for one, at in note["tables"].items()}.items() <= ids.items() for note in notes)
    assert notes[-1]["epoch"] == 2
    newest = notes[-1]["tables"]
    assert newest.keys() >= {name}
    assert newest[name]["version"] == len(notes) - 2


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table_is_named_and_not_made_anew(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name)
    words = refused(folder)
    assert f"{folder}/{name} is missing, and the log of" in words


@pytest.mark.parametrize("name", FIRST)
def test_a_missing_table_of_an_earlier_release_is_named_where_another_has_rows(folder: Path, name: str) -> None:
    strip_notes(folder, 1)
    shutil.rmtree(folder / name)
    words = refused(folder)
    assert f"{folder}/{name} is missing, and {'dead_letters' if name == 'messages' else 'messages'} has rows" in words


def test_a_table_that_a_newer_release_adds_is_made(folder: Path) -> None:
    strip_notes(folder, 1)
    shutil.rmtree(folder / "pending_updates")
    run(folder, 3)
    assert opened(folder).table("pending_updates").version() == 0


@pytest.mark.parametrize("gone", range(1, len(TABLES)))
def test_a_store_whose_creation_broke_off_is_made_whole(tmp_path: Path, gone: int) -> None:
    table = make_store(tmp_path / "store", [])
    for name in list(TABLES)[:gone]:
        shutil.rmtree(tmp_path / "store" / name)
    for log in (tmp_path / "store").glob("*/_delta_log/0*1.json"):
        log.unlink()
    open_folder(HeldStore.of(table, Storage()))
    assert {name: HeldStore(table.uri).table(name).version() for name in TABLES} == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize("name", TABLES)
def test_another_table_in_its_place_is_refused(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name)
    another = make_store(folder.parent / "another", [])
    shutil.copytree(folder.parent / "another" / name, folder / name)
    assert f"{folder}/{name} is another table than the one that the log of" in refused(folder)
    assert another.uri


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_was_rolled_back_by_a_copy_of_its_folder_is_refused(folder: Path, name: str) -> None:
    shutil.copytree(folder / name, folder.parent / "copy")
    run(folder, 3)
    run(folder, 4)
    version = opened(folder).table(name).version()
    shutil.rmtree(folder / name)
    shutil.copytree(folder.parent / "copy", folder / name)
    words = refused(folder)
    assert f"{folder}/{name} is older than it was: it is at version {version - 2}, and the log of" in words


def test_all_tables_from_one_copy_are_a_store_again(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "copy")
    run(folder, 3)
    shutil.rmtree(folder)
    shutil.copytree(folder.parent / "copy", folder)
    run(folder, 3)


def test_heads_that_were_raised_before_messages_left_are_known_to_the_commit_that_removed_them(folder: Path) -> None:
    shutil.copytree(folder / "heads", folder.parent / "copy")
    store = opened(folder)
    raise_heads(store, pa.table({"stream_name": ["order-1"], "next_position": [3]}), 3)
    version = store.table("heads").version()
    add_tombstones(store, [("m9", 9)], START, "run")
    shutil.rmtree(folder / "heads")
    shutil.copytree(folder.parent / "copy", folder / "heads")
    assert f"the log of tombstones names {version}" in refused(folder)


def delete(folder: Path, name: str) -> None:
    DeltaTable(str(folder / name)).delete()


def restore(folder: Path, name: str) -> None:
    DeltaTable(str(folder / name)).restore(1)


def overwrite(folder: Path, name: str) -> None:
    table = DeltaTable(str(folder / name))
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows, mode="overwrite")


@pytest.mark.parametrize("name", ["messages", "dead_letters"])
@pytest.mark.parametrize("change", [delete, restore, overwrite])
@pytest.mark.parametrize("followed", [False, True], ids=["last", "between two of ours"])
def test_a_change_of_data_by_somebody_else_is_refused(
    folder: Path, change: Callable[[Path, str], None], name: str, followed: bool
) -> None:
    before = opened(folder)
    check_folder(before)
    change(folder, name)
    version = DeltaTable(str(folder / name)).version()
    if followed:
        # By a run that began before, and commits as if nothing had happened.
        open_epoch(_unaware(before, name, version), "run-3")
    assert f"{folder}/{name} was changed by another writer: " in (words := refused(folder))
    assert f" at version {version}" in words


def _unaware(store: HeldStore, name: str, version: int) -> HeldStore:
    """The store of a run that doesn't look at a commit of others."""
    store.epoch = 3
    entry = store.entry
    store.entry = lambda one, at: None if (one, at) == (name, version) else entry(one, at)
    known = store.known.of(name)
    store.table(name)
    assert known is not None
    store.known.reached(name, known)
    return store


def test_a_run_under_way_is_refused_at_its_next_look_at_the_table(folder: Path) -> None:
    store = opened(folder)
    check_folder(store)
    store.table("dead_letters")
    delete(folder, "dead_letters")
    with pytest.raises(TableRefusedError, match="dead_letters was changed by another writer: DELETE at version"):
        store.table("dead_letters")


def test_a_run_under_way_is_refused_once_a_table_is_another_or_older(folder: Path) -> None:
    run(folder, 3)
    store = opened(folder)
    check_folder(store)
    (folder / "heads" / "_delta_log" / f"{store.table('heads').version():020d}.json").unlink()
    shutil.rmtree(folder / "files")
    make_store(folder.parent / "another", [])
    shutil.copytree(folder.parent / "another" / "files", folder / "files")
    for name in ("heads", "files"):
        with pytest.raises(TableRefusedError, match=f"store/{name} was replaced while this run went on"):
            store.opened(name)


def test_a_change_of_which_the_log_says_nothing_any_more_is_not_told(folder: Path) -> None:
    delete(folder, "dead_letters")
    table = DeltaTable(str(folder / "dead_letters"))
    table.create_checkpoint()
    for log in (folder / "dead_letters" / "_delta_log").glob("*.json"):
        log.unlink()
    check_folder(opened(folder))


@pytest.mark.parametrize("name", TABLES)
def test_merged_files_and_a_vacuum_by_others_pass(folder: Path, name: str) -> None:
    add_messages(f"file://{folder}", [message(3)])
    add_dead_letters(f"file://{folder}", [{"failed_at": START, "raw": b"y"}])
    table = DeltaTable(str(folder / name))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    check_folder(opened(folder))
    run(folder, 3)
    check_folder(opened(folder))


def test_rows_of_the_audit_by_runs_that_only_read_don_t_contradict_anybody(folder: Path) -> None:
    reading, writing = opened(folder), opened(folder, 3)
    check_folder(reading)
    check_folder(writing)
    open_epoch(writing, "run-3")
    for store, run_ in ((reading, "replay-1"), (writing, "run-3"), (reading, "replay-2")):
        add_audit(store, AuditEntry(START, "Preview", run_, RESOURCE, {"run": run_}, 1, 1))
    check_folder(opened(folder))


def test_a_writer_between_two_looks_of_a_reader_is_no_contradiction(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, table, writes, lock = opened(folder), HeldStore.table, [3, 4], Lock()

    def while_another_writes(store: HeldStore, name: str, version: int | None = None) -> DeltaTable:
        found = table(store, name, version)
        with lock if store is reader else nullcontext():
            if store is reader and writes:
                run(folder, writes.pop(0))
        return found

    monkeypatch.setattr(HeldStore, "table", while_another_writes)
    check_folder(reader)
    assert not writes


def test_an_upgrade_notes_each_table_once_and_changes_no_total(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    strip_notes(tmp_path / "store", 2)
    before = {name: HeldStore(table.uri).table(name).version() for name in TABLES}
    totals = last_note(HeldStore(table.uri)).totals
    assert totals.stored == 1
    writes: list[str] = []
    with observing(lambda name, moment: writes.append(name) if moment == "after" else None):
        open_folder(HeldStore.of(table, Storage()))
        open_folder(HeldStore.of(table, Storage()))
    assert writes == ["marker", *(f"note-{name}" for name in TABLES)]
    assert {name: HeldStore(table.uri).table(name).version() - 1 for name in TABLES} == before
    assert last_note(HeldStore(table.uri)).totals == totals
    assert json.loads((tmp_path / "store" / MARKER).read_text())["formatVersion"] == FORMAT_VERSION == 4


def test_an_upgrade_that_broke_off_goes_on(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    strip_notes(tmp_path / "store", 2)

    def cut_off(name: str, moment: str) -> None:
        if (name, moment) == ("note-heads", "before"):
            raise InterruptedError

    with pytest.raises(InterruptedError), observing(cut_off):
        open_folder(HeldStore.of(table, Storage()))
    open_folder(HeldStore.of(table, Storage()))
    assert all("userMetadata" in entries(tmp_path / "store", name)[-1] for name in TABLES)


def test_changes_by_others_before_the_first_note_are_accepted(folder: Path) -> None:
    strip_notes(folder, 2)
    delete(folder, "dead_letters")
    run(folder, 3)
    check_folder(opened(folder))


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("changes", [True, False])
def test_a_commit_on_many_files_is_read_to_its_end_unless_it_is_ours(folder: Path, noted: bool, changes: bool) -> None:
    note = {"userMetadata": json.dumps({"tables": {}})} if noted else {}
    files = [{"add": {"path": f"{number}.parquet", "dataChange": False}} for number in range(5000)]
    last = {"remove": {"path": "0.parquet", "dataChange": changes}}
    actions = [{"commitInfo": {"operation": "WRITE", **note}}, *files, last]
    entry = folder / "messages" / "_delta_log" / f"{99:020d}.json"
    entry.write_text("".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions))
    assert entry.stat().st_size > 200_000
    found = opened(folder).entry("messages", 99)
    assert (found.tables is not None, found.is_foreign) == (noted, changes and not noted)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"{", b'{"commitInfo":1}', b'{"commitInfo":{"userMetadata":7}}', b"[]"]
)
def test_a_malformed_commit_names_no_tables(folder: Path, content: bytes) -> None:
    (folder / "messages" / "_delta_log" / f"{99:020d}.json").write_bytes(content)
    assert opened(folder).entry("messages", 99).tables is None
