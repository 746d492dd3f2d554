"""Heads of streams, by name or by a keyed hash of it."""

from messagestore_core.store.heads import Heads
from messagestore_core.store.keyed import stream_key

KEY = b"k" * 32


def test_a_stream_that_was_hidden_goes_on_by_its_name_from_where_it_was() -> None:
    heads = Heads(by_key={stream_key(KEY, "order-1"): 7, stream_key(KEY, "order-2"): 3}, key=KEY)
    heads.raise_to("order-1", 5)
    assert heads.by_name == {"order-1": 7}
    assert heads.by_key == {stream_key(KEY, "order-2"): 3}


def test_a_head_is_raised_and_never_lowered() -> None:
    heads = Heads(by_name={"order-1": 7})
    heads.raise_to("order-1", 5)
    heads.raise_to("order-2", 2)
    heads.raise_to("order-2", 4)
    assert heads.by_name == {"order-1": 7, "order-2": 4}


def test_a_stream_that_is_forgotten_keeps_its_head_by_a_hash() -> None:
    heads = Heads(by_name={"order-1": 7}, key=KEY)
    heads.forget("order-1")
    assert (heads.by_name, heads.by_key) == ({}, {stream_key(KEY, "order-1"): 7})
    assert heads.hides("order-1")
    assert heads.next_position("order-1") == 7
