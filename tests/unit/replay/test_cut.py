"""Cutting a selection into chunks: nothing is missing, nothing comes twice, and sizes are kept."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.contract.replay import FrozenSelection
from messagestore_jobs.frozen.replays import Frozen, Split
from messagestore_jobs.replay.chunks import Size, chunk_size, next_range

SPLITS = st.lists(st.tuples(st.integers(1, 400_000), st.integers(0, 1 << 28)), max_size=40).map(
    lambda sizes: tuple(Split((i,), messages, size, 0, i, i) for i, (messages, size) in enumerate(sizes))
)


def frozen(splits: tuple[Split, ...]) -> Frozen:
    selection = FrozenSelection(table_version=1, messages=sum(g.messages for g in splits), bytes=0)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Frozen(task="", run="r", at=at, selection=selection, listed=False, end=None, splits=splits)


@given(SPLITS, st.integers(1, 1_000_000), st.integers(1, 1 << 30), st.integers(1, 8))
def test_chunks_take_every_split_once_in_order_and_keep_to_their_size(
    splits: tuple[Split, ...], messages: int, size: int, cores: int
) -> None:
    selection, at, seen = frozen(splits), 0, []
    while at < len(splits):
        chunk_range = next_range(selection, at, Size(messages, size), cores)
        taken = splits[at : chunk_range.next_split]
        assert len(taken) == 1 or (sum(g.messages for g in taken) <= messages and sum(g.bytes for g in taken) <= size)
        assert chunk_range.messages == sum(g.messages for g in taken)
        assert chunk_range.cuts[0] == taken[0].start
        assert list(chunk_range.cuts) == sorted(set(chunk_range.cuts))
        assert chunk_range.end == (
            splits[chunk_range.next_split].start if chunk_range.next_split < len(splits) else None
        )
        seen += taken
        at = chunk_range.next_split
    assert tuple(seen) == splits


def test_a_frozen_selection_is_read_back_as_it_was_written() -> None:
    selection = frozen((Split((True, "a", 1, 2), 1, 2, 0, None, None), Split((5,), 1, 2, 0, 3, 4)))
    assert Frozen.model_validate_json(selection.model_dump_json(by_alias=True)) == selection


def test_a_rate_limit_makes_chunks_of_a_few_seconds() -> None:
    assert chunk_size(500, 2).messages == 1000
    assert chunk_size(0.01, 2).messages == 1
    assert chunk_size(None, 4).messages > chunk_size(None, 2).messages
