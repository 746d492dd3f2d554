"""The cursor of a subscription, as an object of the store."""

from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.stores import Table
from messagestore_core.store.cursors import Cursor, CursorObject, Sequences, Waiting, passed_by_all, read_cursors
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import FencedError, HeldStore
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import is_run_state
from messagestore_core.store.objects import Objects
from support.stores import make_store

NAME = "_cursors/shop.orders/cursor.json"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [])


def opened(table: Table, store: str = "id-1") -> CursorObject:
    return CursorObject(HeldStore(table.uri), "shop", "orders", store)


def cursor(position: int = 0, **given: Any) -> Cursor:
    fixed: dict[str, Any] = {"store": "id-1", "subscription": "shop/orders", "run": "run-1", "job": "shop.orders"}
    return Cursor(**{**fixed, "global_position": position, **given})


def test_a_cursor_is_read_as_it_was_written(table: Table, tmp_path: Path) -> None:
    first = opened(table)
    assert first.read() is None
    first.write(cursor(3))
    first.write(cursor(5))
    assert opened(table).read() == cursor(5)
    assert [str(path.relative_to(tmp_path / "store")) for path in tmp_path.rglob("cursor*")] == [NAME]
    assert is_run_state(NAME)


def test_a_cursor_of_an_earlier_release_may_have_missed_less_than_nothing(table: Table, tmp_path: Path) -> None:
    opened(table).write(cursor(5, missed=7))
    path = tmp_path / "store" / NAME
    path.write_text(path.read_text().replace('"missed":7', '"missed":-80'))
    assert opened(table).read() == cursor(5)


def test_a_cursor_has_not_passed_members_that_wait_for_their_sequence() -> None:
    waiting = Waiting(positions=(3, 5))
    kept = Sequences(run="run-1", after=0, order="PerStream", waiting=waiting)
    waits, other = cursor(7, sequences=kept, destination="eu"), cursor(6, destination="rest")
    assert passed_by_all({"eu": waits, "rest": other}, 9) == 2
    assert passed_by_all({"": cursor(7, sequences=kept.model_copy(update={"waiting": Waiting()}))}, 9) == 7
    assert passed_by_all({"": waits}, 6) is None


@pytest.mark.parametrize(
    ("positions", "passed"),
    [
        ({"": 5}, 5),
        ({"eu": 7, "rest": 5}, 5),
        # One without a cursor has passed nothing, and one ahead of the store says nothing.
        ({"eu": 7}, None),
        ({"eu": 7, "rest": 10}, None),
        ({}, None),
    ],
)
def test_the_cursor_of_all_destinations_is_that_of_the_slowest(positions: dict[str, int], passed: int | None) -> None:
    several = {"eu": ("rest",), "rest": ("eu",)}
    found = {name: cursor(at, destination=name, beside=several.get(name, ())) for name, at in positions.items()}
    assert passed_by_all(found, head=9) == passed


def test_each_destination_has_an_object_of_its_own(table: Table) -> None:
    held, own = HeldStore(table.uri), store_id(Store(table.uri))
    for name, removed in (("", False), ("eu", False), ("old", True)):
        CursorObject(held, "shop", "a.b", own, name).write(cursor(3, store=own, destination=name, removed=removed))
    found = read_cursors(Store(table.uri))
    assert {which: sorted(several) for which, several in found.items()} == {("shop", "a.b"): ["", "eu"]}
    assert all(is_run_state(f"_cursors/shop.a.b{name}/cursor.json") for name in ("", "_eu", "_old"))


def test_of_two_runs_the_one_that_wrote_last_goes_on(table: Table) -> None:
    first, second = opened(table), opened(table)
    first.read()
    first.write(cursor(3))
    second.read()
    second.write(cursor(3, run="run-2"))
    with pytest.raises(FencedError):
        first.write(cursor(9))
    second.write(cursor(4, run="run-2"))
    assert opened(table).read() == cursor(4, run="run-2")


def test_of_two_runs_that_found_no_cursor_one_creates_it(table: Table) -> None:
    first, second = opened(table), opened(table)
    first.read()
    second.read()
    first.write(cursor(3))
    with pytest.raises(FencedError):
        second.write(cursor(7, run="run-2"))
    assert opened(table).read() == cursor(3)


def test_a_store_that_was_made_again_has_no_cursor_and_gets_one(table: Table) -> None:
    first = opened(table)
    first.read()
    first.write(cursor(3))
    again = opened(table, "id-2")
    assert again.read() is None
    again.write(cursor(1, store="id-2"))
    assert opened(table, "id-2").read() == cursor(1, store="id-2")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", cursor(3).model_dump_json(by_alias=True).encode()[:-2]])
def test_a_file_that_is_no_cursor_is_refused(table: Table, content: bytes) -> None:
    Objects(table.uri, HeldStore(table.uri).storage).write(NAME, content)
    with pytest.raises(TableRefusedError, match="is not what a run writes there"):
        opened(table).read()
