"""Objects beside a store's tables are read up to a size, and accepted only in their expected form."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from messagestore_core.contract.records import Translator
from messagestore_core.contract.stores import Table
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.layout import MARKER
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects, is_below
from messagestore_core.store.purges import find_plans
from messagestore_core.store.schemas import AUDIT, HEADS
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import tombstone_key
from messagestore_core.versions import declare, declared
from messagestore_jobs.driver.failures import is_panic
from messagestore_jobs.frozen.replays import unfinished
from messagestore_jobs.purge.erase import owed
from support.stores import add_messages, kept_heads, make_store, message

NO_DOCUMENT = [b"", b"{", b"\xff", b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b"7", b"null", b'{"a":1}']


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [message(1)])


@pytest.mark.parametrize(
    "content", [*NO_DOCUMENT, b'{"formatVersion":[],"owner":{"namespace":"default","name":"orders"}}']
)
def test_a_malformed_marker_is_refused_by_its_name(table: Table, content: bytes) -> None:
    Objects(table.uri, Storage()).write(MARKER, content)

    with pytest.raises(TableRefusedError, match=r"_messagestore\.json is not what a run writes there"):
        open_folder(HeldStore.of(table, Storage()))


def test_a_document_past_any_size_is_not_read(table: Table, tmp_path: Path) -> None:
    os.truncate(tmp_path / "store" / MARKER, LARGEST_DOCUMENT + 1)

    with pytest.raises(TableRefusedError, match="no run writes more than"):
        open_folder(HeldStore.of(table, Storage()))


@pytest.mark.parametrize("content", NO_DOCUMENT)
def test_a_malformed_plan_of_a_purge_or_frozen_replay_is_refused(table: Table, content: bytes) -> None:
    objects = Objects(table.uri, Storage())
    objects.write("_purges/p/plan.json", content)
    objects.write("_replays/r/state/frozen.json", content)

    with pytest.raises(TableRefusedError, match=r"_purges/p/plan\.json"):
        find_plans(HeldStore(table.uri))
    with pytest.raises(TableRefusedError, match=r"_replays/r/state/frozen\.json"):
        unfinished(HeldStore(table.uri))


@pytest.mark.parametrize("content", NO_DOCUMENT)
def test_malformed_translators_are_written_again(table: Table, content: bytes) -> None:
    objects, translators = Objects(table.uri, Storage()), [Translator(from_version=0)]
    objects.write("_translators.json", content)

    declare(HeldStore(table.uri), translators)

    assert declared(objects) == translators


@pytest.mark.parametrize("content", NO_DOCUMENT)
def test_a_malformed_hint_to_the_last_checkpoint_is_ignored(table: Table, content: bytes) -> None:
    Objects(table.uri, Storage()).write("messages/_delta_log/_last_checkpoint", content)

    assert table_state(HeldStore(table.uri)).versions_since_checkpoint == 1


@pytest.mark.parametrize(
    "note",
    [
        "[" * 50_000,
        '{"run":7}',
        '{"run":"r","totals":{"stored":-1}}',
        '{"run":"r","updates":{"stale":9007199254740992}}',
    ],
)
def test_a_commit_note_that_no_run_writes_is_ignored(table: Table, note: str) -> None:
    before = last_note(HeldStore(table.uri))
    from deltalake import CommitProperties

    forged = CommitProperties(custom_metadata={"userMetadata": note})
    rows = HeldStore(table.uri).table("messages").to_pyarrow_table()
    write_deltalake(HeldStore(table.uri).table("messages"), rows, mode="append", commit_properties=forged)

    assert last_note(HeldStore(table.uri)) == before


@pytest.mark.parametrize("position", [-1, 2**63 - 1])
@pytest.mark.parametrize("column", ["next_position", "next_global_position"])
def test_a_head_that_was_never_reached_is_refused(table: Table, column: str, position: int) -> None:
    row = {"stream_name": "order-1" if column == "next_position" else None, column: position}
    write_deltalake(HeldStore(table.uri).table("heads"), pa.Table.from_pylist([row], schema=HEADS), mode="append")

    with pytest.raises(TableRefusedError, match=f"store/heads has a {column} that cannot have been reached"):
        kept_heads(HeldStore(table.uri))


@pytest.mark.parametrize("rules", ["[" * 50_000, "7", "[]", '{"eraseDueBy":7,"preview":"p"}', '{"eraseDueBy":"x"}'])
def test_the_audit_owes_no_erasure_that_no_purge_has_written(table: Table, rules: str) -> None:
    row = {"at": datetime(2026, 1, 5, tzinfo=UTC), "action": "Purge", "run": "r", "rules": rules, "actor": "a"}
    row |= {"resource": "r", "generation": 1, "table_version_before": 1, "table_version_after": 1, "bytes": 0}
    write_deltalake(HeldStore(table.uri).table("audit"), pa.Table.from_pylist([row], schema=AUDIT), mode="append")

    assert owed(HeldStore(table.uri)) == []


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_a_malformed_key_of_tombstones_is_refused(table: Table, key: bytes) -> None:
    Objects(table.uri, Storage()).write("_tombstone_key", key)

    with pytest.raises(TableRefusedError, match="_tombstone_key is no key of 32 bytes"):
        tombstone_key(HeldStore(table.uri))


@pytest.mark.parametrize(
    ("uri", "other", "below"),
    [
        ("file:///landing", "file:///landing/a.jsonl", True),
        ("file:/landing/", "file:///landing/b/a.jsonl", True),
        ("/landing", "file:/landing/a", True),
        ("s3a://lake/in", "s3a://lake/in/a", True),
        ("s3://lake/in/", "s3a://lake/in/a", True),
        ("file:///landing", "file:///landing", True),
        ("file:///landing", "file:///landing-2/a", False),
        ("file:///landing", "file:///landing/../etc/passwd", False),
        ("file:///landing", "file:///etc/passwd", False),
        ("file:///landing", "s3a://landing/a", False),
        ("s3a://lake/in", "s3a://lake/input/a", False),
        ("s3a://lake/in", "s3a://other/in/a", False),
        ("s3a://lake/in", "file:///lake/in/a", False),
    ],
)
def test_a_uri_is_below_another_or_not(uri: str, other: str, below: bool) -> None:
    assert is_below(uri, other) is below


def test_a_panic_of_delta_rs_is_distinguished_from_the_end_of_the_process() -> None:
    class PanicException(BaseException):
        """Has the name of delta-rs' own error."""

    assert is_panic(PanicException())
    assert not is_panic(KeyboardInterrupt())


def test_an_unchanged_store_is_opened(table: Table) -> None:
    add_messages(table.uri, [message(2)])

    open_folder(HeldStore.of(table, Storage()))
