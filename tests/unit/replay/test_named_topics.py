"""What becomes of messages whose topic takes none."""

import json
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.replay import StartPoint, Subscription
from messagestore_core.store.cursors import Cursor
from messagestore_core.store.fence import HeldStore
from messagestore_jobs.replay import named_topics
from messagestore_jobs.replay.named_topics import NamedTopics


class Sender:
    """Refuses all that it takes."""

    def __init__(self, *positions: int) -> None:
        self.refused, self.left_out = [[n, at, "Missing"] for n, at in enumerate(positions)], list[int]()

    def take(self, most: int) -> str:
        return json.dumps(self.refused)

    def leaveOut(self, positions: str) -> None:  # noqa: N802
        self.left_out += json.loads(positions)


def cursor(position: int, destination: str) -> Cursor:
    return Cursor(
        store="id-1",
        subscription="shop/orders",
        destination=destination,
        global_position=position,
        run="run-1",
        job="shop.orders",
    )


def test_the_cursor_of_the_other_destination_is_read_once_for_many_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()

    def cursor_in(store: object, folder: str, store_id: str) -> Cursor:
        read.append(folder)
        return cursor(4, "rest")

    monkeypatch.setattr(named_topics, "cursor_in", cursor_in)
    subscription = Subscription(start=StartPoint(at="Beginning"), destination="eu", otherwise="rest")
    named = NamedTopics(HeldStore(f"file://{tmp_path}"), subscription, cursor(4, "eu"))
    sender: Any = Sender(5, 6, 9)
    assert (named.take(sender, 10), sender.left_out) == (None, [5, 6, 9])
    assert read == ["shop.orders_rest"]
