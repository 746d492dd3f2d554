"""A run that goes on sees what is committed to its store, also behind a log that an erasure has cut."""

from pathlib import Path
from typing import Any

import pytest

from messagestore_core.store.delta_log import last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_jobs.purge.remains import forget_past
from messagestore_jobs.replay.newest import Newest
from support.stores import add_messages, make_store, message


class Asked(Store):
    """Counts what it asks of the log."""

    asked: int = 0

    def entry(self, name: str, version: int) -> Any:
        self.asked += 1
        return super().entry(name, version)

    def log_object(self, name: str, named: str) -> bytes | None:
        self.asked += 1
        return super().log_object(name, named)


@pytest.fixture
def store(tmp_path: Path) -> Asked:
    return Asked(make_store(tmp_path / "store", [message(1)]).uri)


def test_each_commit_is_seen_by_the_next_look(store: Asked) -> None:
    newest = Newest(store)
    for position in (2, 3):
        add_messages(store.uri, [message(position)], next_global_position=position + 1)
        newest.look()
        assert newest.head == position


@pytest.mark.parametrize("idle", range(6))
def test_a_commit_behind_entries_that_an_erasure_has_removed_is_seen_soon(store: Asked, idle: int) -> None:
    newest = Newest(store)
    for _ in range(idle):
        newest.look()
    for _ in range(2):
        forget_past(HeldStore(store.uri), "messages", last_note(store))
    add_messages(store.uri, [message(2)], next_global_position=3)
    looks = next(n for n in range(1, 100) if newest.look() or newest.head == 2)
    assert (newest.head, looks <= 5) == (2, True)


def test_a_look_that_finds_nothing_is_one_request(store: Asked) -> None:
    newest, store.asked = Newest(store), 0
    for looks in range(1, 12):
        newest.look()
        assert store.asked == looks
