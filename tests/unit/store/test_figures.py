"""The counts in a store's figures."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from messagestore_core.contract.stores import Owner
from messagestore_core.store.delta_log import last_note, table_state
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import local_path
from messagestore_jobs.purge.archive import ArchiveManifest
from support.readings import TOLD, tell
from support.stores import add_dead_letters, add_messages, change_rows, make_store, message, remove_rows

AT = datetime(2026, 1, 5, tzinfo=UTC)


def test_of_dead_letters_those_that_were_not_redriven_are_counted(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    assert table_state(Store(uri)).dead_letters == 0
    add_dead_letters(uri, [{"raw": b"a", "failed_at": AT}, {"raw": b"b", "failed_at": AT, "redriven_at": AT}])
    add_dead_letters(uri, [{"raw": b"c", "failed_at": AT}])
    add_dead_letters(uri, [{"raw": b"d", "failed_at": AT, "redriven_at": AT}])
    assert table_state(Store(uri)).dead_letters == 2


def letter(raw: bytes, reason: str, redriven: bool = False) -> dict[str, Any]:
    return {"raw": raw, "reason": reason, "failed_at": AT, "redriven_at": AT if redriven else None}


def by_reason(store: Store, *, count: bool = False) -> dict[str, int] | None:
    return table_state(store, count_reasons=count).dead_letters_by_reason


def test_letters_that_are_alike_in_each_file_are_counted_by_reason_without_a_look_into_files(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1)]).uri)
    assert by_reason(store) == {}
    add_dead_letters(store.uri, [letter(b"a", "Unparseable"), letter(b"b", "Unparseable")])
    add_dead_letters(store.uri, [letter(b"c", "MissingField")])
    add_dead_letters(store.uri, [letter(b"d", "FilterError", redriven=True)])
    for file in Path(local_path(store.path("dead_letters"))).glob("*.parquet"):
        file.unlink()
    assert by_reason(store) == {"Unparseable": 2, "MissingField": 1}


def test_files_of_different_letters_are_read_where_it_is_asked_for_and_once(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1)]).uri)
    mixed = [letter(b"a", "Unparseable"), letter(b"b", "MissingField"), letter(b"c", "MissingField", redriven=True)]
    add_dead_letters(store.uri, mixed)
    assert by_reason(store) is None
    assert by_reason(store, count=True) == {"Unparseable": 1, "MissingField": 1}
    for file in Path(local_path(store.path("dead_letters"))).glob("*.parquet"):
        file.unlink()
    assert by_reason(store) == {"Unparseable": 1, "MissingField": 1}
    remove_rows(store.uri, "dead_letters")
    assert by_reason(store) == {}


def test_letters_that_others_were_removed_from_or_redriven_among_are_counted_too(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1)]).uri)
    reasons = ("Unparseable", "MissingField", "MissingField", "FilterError")
    add_dead_letters(store.uri, [letter(bytes([at]), reason) for at, reason in enumerate(reasons)])
    remove_rows(store.uri, "dead_letters", "reason = 'FilterError'")
    assert by_reason(Store(store.uri), count=True) == {"Unparseable": 1, "MissingField": 2}
    change_rows(store.uri, "dead_letters", {"redriven_at": "failed_at"}, "reason = 'Unparseable'")
    assert by_reason(Store(store.uri), count=True) == {"MissingField": 2}


def test_where_the_log_tells_nothing_letters_are_counted_from_their_files(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1)]).uri)
    add_dead_letters(store.uri, [letter(b"a", "Unparseable"), letter(b"b", "MissingField", redriven=True)])
    tell(store, "dead_letters", TOLD["nothing"])
    assert by_reason(Store(store.uri), count=True) == {"Unparseable": 1}


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
