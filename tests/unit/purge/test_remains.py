"""What an erasure finds in a store: names of erased streams, and files that no run needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads
from messagestore_core.store.keyed import stream_key
from messagestore_jobs.purge.remains import names_left, strange
from support.readings import tell
from support.stores import make_store, message

KEY = b"k" * 32
ERASED, ALIVE = "order-" + 26 * "a", "order-" + 30 * "a"


def hidden(name: str) -> HiddenHeads:
    return HiddenHeads({stream_key(KEY, name): 1}, 0, KEY)


@pytest.mark.parametrize("name", [ERASED, ALIVE[:-1]])
def test_the_start_of_a_long_name_in_statistics_is_no_name_of_another_stream(tmp_path: Path, name: str) -> None:
    store = Store(make_store(tmp_path / "store", [message(1, stream_name=ALIVE)]).uri)
    tell(store, "messages", bounds(name))
    assert list(names_left(Store(store.uri), hidden(name))) == []


def test_a_name_that_no_message_has_is_found_in_statistics(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1, stream_name=ALIVE)]).uri)
    tell(store, "messages", bounds("order-1"))
    [left] = names_left(Store(store.uri), hidden("order-1"))
    assert left == "the log of messages has the name of a stream that only erased messages had"


def test_what_a_replay_beside_the_erasure_is_writing_is_not_strange() -> None:
    writing = "_replays/a.b_7/state/{}/_temporary/0/_temporary/attempt_202611291100_0001_m_000000_1/part-00000-a.txt"
    names = [*map(writing.format, ("staging", "placed", "selected")), "_replays/a.b_7/state/staging/_temporary/part-0"]
    assert list(strange(names, {}, set())) == [f"{names[-1]} is nothing that a run needs"]


def bounds(least: str) -> Callable[[dict[str, Any]], object]:
    return lambda said: said["minValues"].update(stream_name=least)
