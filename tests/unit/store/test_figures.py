"""The counts in a store's figures."""

from datetime import UTC, datetime
from pathlib import Path

from messagestore_core.contract.stores import Owner
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.handle import Store
from messagestore_jobs.purge.archive import ArchiveManifest
from support.stores import add_dead_letters, add_messages, make_store, message, remove_rows

AT = datetime(2026, 1, 5, tzinfo=UTC)


def test_of_dead_letters_those_that_were_not_redriven_are_counted(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    assert table_state(Store(uri)).dead_letters == 0
    add_dead_letters(uri, [{"raw": b"a", "failed_at": AT}, {"raw": b"b", "failed_at": AT, "redriven_at": AT}])
    add_dead_letters(uri, [{"raw": b"c", "failed_at": AT}])
    add_dead_letters(uri, [{"raw": b"d", "failed_at": AT, "redriven_at": AT}])
    assert table_state(Store(uri)).dead_letters == 2


def test_the_last_position_given_stays_when_its_message_is_removed(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    assert table_state(Store(uri), last_note(Store(uri))).last_global_position is None
    add_messages(uri, [], next_global_position=1)
    assert table_state(Store(uri), last_note(Store(uri))).last_global_position is None
    add_messages(uri, [message(1), message(2)], next_global_position=3)
    remove_rows(uri, "messages", "global_position = 2")
    state = table_state(Store(uri), last_note(Store(uri)))
    assert (state.messages, state.last_global_position) == (1, 2)


def test_an_archives_manifest_says_which_writing_it_holds_also_where_an_earlier_release_has_sealed_it() -> None:
    said = {
        "preview": "p",
        "run": "purge-1",
        "table": "file:///store",
        "owner": Owner(namespace="default", name="orders"),
        "table_version": 3,
        "format": "Parquet",
        "messages": 10,
        "bytes": 100,
        "files": (),
    }
    now, earlier = ArchiveManifest(**said, writing=2), ArchiveManifest(**said, rows=2)
    assert now == earlier
    assert '"writing":2,"messages":10' in now.model_dump_json(by_alias=True)
