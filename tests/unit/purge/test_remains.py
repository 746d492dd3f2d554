"""Names of erased streams that are left in a store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads
from messagestore_core.store.keyed import stream_key
from messagestore_jobs.purge.remains import names_left
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


def bounds(least: str) -> Callable[[dict[str, Any]], object]:
    return lambda said: said["minValues"].update(stream_name=least)
