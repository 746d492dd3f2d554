"""`messagestore repair` says what is wrong with a store, and makes of it a store that runs accept."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner, Result

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.audit import read_audit
from messagestore_core.store.claim import open_epoch
from messagestore_core.store.delta_log import epoch_of, last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder, open_folder
from messagestore_core.store.repair import repair as repaired
from messagestore_core.store.repair import steps
from messagestore_core.store.schemas import TABLES
from messagestore_operator.cli.main import app
from support.external_writes import unheard
from support.local_runs import tree
from support.stores import OWNER, START, add_dead_letters, add_messages, kept_heads, make_store, message, positions

FINE = "nothing is wrong with the logs of the tables; messagestore verify reads their files\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that no operator runs, of three messages in two commits."""
    folder = tmp_path_factory.mktemp("repair") / "store"
    table = make_store(folder, [message(1)], [message(2), message(3, stream_name="other-1")])
    add_dead_letters(table.uri, [{"failed_at": START, "raw": b"x"}])
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def opened(folder: Path, epoch: int | None = None) -> HeldStore:
    return HeldStore(f"file://{folder}", owner=OWNER, epoch=epoch)


def repair(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["repair", str(folder), *options])


def table(folder: Path, name: str = "messages") -> DeltaTable:
    return DeltaTable(str(folder / name))


def accepted(folder: Path, *options: str) -> str:
    """What is said before and when the repair is accepted; afterwards runs go on."""
    before = tree(folder)
    dry = repair(folder)
    assert (dry.exit_code, dry.stdout.splitlines()[-1]) == (1, "nothing was written; --accept does this")
    assert tree(folder) == before
    done = repair(folder, "--accept", *options)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "repaired"), done.output
    assert repair(folder).stdout == FINE
    newest = epoch_of(opened(folder).table("messages"))
    later = opened(folder, None if newest is None else newest + 1)
    check_folder(later)
    open_folder(later)
    check_folder(opened(folder))
    return dry.stdout


def test_a_store_that_is_as_it_should_be_is_left_alone(folder: Path) -> None:
    before = tree(folder)
    for options in ((), ("--accept",)):
        result = repair(folder, *options)
        assert (result.exit_code, result.stdout) == (0, FINE)
    assert tree(folder) == before


def test_a_folder_without_a_store_is_named(tmp_path: Path) -> None:
    result = repair(tmp_path / "none")
    assert result.exit_code == 1
    assert "is no message store" in result.stderr


@pytest.mark.parametrize("name", [name for name in TABLES if name != "messages"])
def test_a_lost_table_is_made_anew_with_a_word_about_what_is_lost(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name)
    words = accepted(folder)
    assert f"{folder}/{name} is missing" in words
    assert "--accept makes it anew: " in words
    assert len(opened(folder).table(name).file_uris()) == (1 if name == "audit" else 0)


def test_messages_are_never_made_anew(folder: Path) -> None:
    shutil.rmtree(folder / "messages")
    before = tree(folder)
    for options in ((), ("--accept",)):
        result = repair(folder, *options)
        assert result.exit_code == 1
        assert "can't be repaired: take it back from a backup" in result.stdout
    assert tree(folder) == before


def roll_back(folder: Path) -> None:
    shutil.copytree(folder / "messages", folder.parent / "copy")
    add_messages(f"file://{folder}", [message(4)])
    store = opened(folder)
    store.table("messages")
    store.table("heads")
    open_folder(store)
    add_dead_letters_by(store)
    shutil.rmtree(folder / "messages")
    shutil.copytree(folder.parent / "copy", folder / "messages")


def add_dead_letters_by(store: HeldStore) -> None:
    """A commit on another table that knows the newest version of messages."""
    open_epoch(HeldStore(store.uri, epoch=1), "run-1")
    known = HeldStore(store.uri, owner=OWNER, epoch=2)
    check_folder(known)
    open_epoch(known, "run-2")


def another(folder: Path) -> None:
    shutil.rmtree(folder / "files")
    make_store(folder.parent / "another", [])
    shutil.copytree(folder.parent / "another" / "files", folder / "files")


def delete(folder: Path) -> None:
    table(folder).delete("message_id = 'm1'")


@pytest.mark.parametrize(
    ("damage", "words", "options"),
    [
        (roll_back, "messages is older than it was", ("--suspended",)),
        (another, "files is another table than", ()),
        (delete, "messages was changed by another writer: DELETE", ()),
    ],
)
def test_a_table_is_taken_as_it_is(
    folder: Path, damage: Callable[[Path], None], words: str, options: tuple[str, ...]
) -> None:
    damage(folder)
    said = accepted(folder, *options)
    assert words in said
    assert "--accept takes it as it is" in said
    [row] = read_audit(opened(folder))
    assert (row["action"], row["resource"]) == ("Repair", "default/orders")
    assert words in json.loads(row["rules"])["accepted"][0]
    assert row["requested_by"].startswith("user:")


def test_after_a_restore_of_all_tables_totals_go_on_from_there_and_positions_are_not_given_twice(folder: Path) -> None:
    add_messages(f"file://{folder}", [message(4), message(5, stream_name="new-1")])
    for name, version in (("messages", 2), ("dead_letters", 0)):
        table(folder, name).restore(version)
    accepted(folder)
    assert positions(f"file://{folder}") == [1, 2, 3]
    assert last_note(opened(folder)).totals == IngestCounts(received=3, stored=3)
    heads = kept_heads(opened(folder))
    assert (heads.next_global, heads.next_position("order-1"), heads.next_position("new-1")) == (6, 5, 6)


def test_after_a_deletion_by_others_totals_stay_and_the_position_is_not_given_twice(folder: Path) -> None:
    table(folder).delete("message_id = 'm3'")
    accepted(folder)
    assert last_note(opened(folder)).totals == IngestCounts(received=3, stored=3)
    assert kept_heads(opened(folder)).next_global == 4


def test_the_store_of_an_operator_is_repaired_as_its_next_epoch_and_only_while_it_is_suspended(folder: Path) -> None:
    open_epoch(opened(folder, 7), "run-7")
    delete(folder)
    before = tree(folder)
    refused = repair(folder, "--accept")
    assert (refused.exit_code, tree(folder)) == (2, before)
    assert "an operator writes this store. Suspend the stream" in refused.stderr
    accepted(folder, "--suspended")
    assert {name: epoch_of(opened(folder).table(name)) for name in TABLES} == dict.fromkeys(TABLES, 8)


def raise_protocol(folder: Path, *actions: object) -> None:
    """Let another writer switch deletion vectors on, as Spark does."""
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(folder, {"commitInfo": {"operation": "DELETE"}}, {"protocol": protocol}, *actions)


def commit(folder: Path, *actions: object) -> None:
    version = table(folder).version() + 1
    log = folder / "messages" / "_delta_log" / f"{version:020d}.json"
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def vector(folder: Path) -> tuple[object, object, object]:
    """The first file of messages, its removal, and the file with a deletion vector."""
    log = folder / "messages" / "_delta_log" / f"{1:020d}.json"
    add = next(json.loads(line)["add"] for line in log.read_text().splitlines() if line.startswith('{"add"'))
    stored = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "offset": 1, "sizeInBytes": 36}
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": False}
    return {"add": add}, {"remove": remove}, {"add": {**add, "deletionVector": {**stored, "cardinality": 1}}}


def test_after_deletion_vectors_and_a_restore_the_table_has_our_protocol_again(folder: Path) -> None:
    add, remove, with_vector = vector(folder)
    raise_protocol(folder, remove, with_vector)
    commit(folder, {"commitInfo": {"operation": "RESTORE"}}, remove, add)
    said = accepted(folder)
    assert "it asks for readers of version 3 and writers of version 7 with deletionVectors" in said
    assert "--accept gives it protocol and properties of version 2 again" in said
    assert positions(f"file://{folder}") == [1, 2, 3]
    assert last_note(opened(folder)).totals == IngestCounts(received=3, stored=3)


def test_a_table_with_deletion_vectors_is_not_taken(folder: Path) -> None:
    _, remove, with_vector = vector(folder)
    raise_protocol(folder, remove, with_vector)
    before = tree(folder)
    result = repair(folder, "--accept")
    assert result.exit_code == 1
    assert "can't be repaired: RESTORE it to an earlier version first" in result.stdout
    assert tree(folder) == before


def test_a_repair_whose_answers_get_lost_is_repeated(folder: Path) -> None:
    add, remove, with_vector = vector(folder)
    raise_protocol(folder, remove, with_vector)
    commit(folder, {"commitInfo": {"operation": "RESTORE"}}, remove, add)
    shutil.rmtree(folder / "files")

    def again() -> None:
        if steps(store := HeldStore(f"file://{folder}")):
            repaired(store, START, "user:ann")

    _, lost = unheard(again)
    assert lost >= {"repair-protocol-messages", "create-files", "repair-index", "repair-messages"}
    check_folder(opened(folder))
    assert positions(f"file://{folder}") == [1, 2, 3]
    assert last_note(opened(folder)).totals == IngestCounts(received=3, stored=3)
