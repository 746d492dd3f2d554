"""Which ids are in the store, against a plain dictionary."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from messagestore_jobs.ingest.message_ids import HashedIds, KeyIndex


def hashes(ids: list[str], different: int = 5) -> np.ndarray:
    """A few hashes for all ids, so that most of them collide; negative ones too."""
    return np.array([sum(i.encode()) % different - 2 for i in ids], dtype=np.int64)


def hashed(ids: list[str]) -> HashedIds:
    return HashedIds.of(hashes(ids), pa.array(ids, pa.string()))


def add(index: KeyIndex, ids: list[str], inserted_at: int) -> None:
    index.add(hashed(ids), np.full(len(ids), inserted_at, dtype=np.int64))


def contains(index: KeyIndex, ids: list[str], not_before: int | None = None) -> list[bool]:
    return index.contains(hashed(ids), not_before).tolist()


ids = st.text("abcé", max_size=4)
batches = st.lists(st.tuples(st.lists(ids, max_size=12), st.integers(0, 20)), max_size=8)


@given(batches, st.lists(ids, max_size=20), st.none() | st.integers(0, 20))
def test_it_holds_exactly_what_was_added(
    added: list[tuple[list[str], int]], asked: list[str], not_before: int | None
) -> None:
    index = KeyIndex()
    newest: dict[str, int] = {}
    for batch, at in added:
        add(index, batch, at)
        for i in batch:
            newest[i] = max(at, newest.get(i, 0))
        expected = [i in newest and (not_before is None or newest[i] >= not_before) for i in asked]
        assert contains(index, asked, not_before) == expected
    assert len(index) == sum(len(batch) for batch, _ in added)


def test_an_empty_index_holds_nothing() -> None:
    assert contains(KeyIndex(), ["a", "b"]) == [False, False]
    assert contains(KeyIndex(), []) == []


def test_ids_with_one_hash_are_told_apart() -> None:
    index = KeyIndex()
    add(index, ["ab", "ba"], 1)
    assert contains(index, ["ab", "ba", "c" * 3]) == [True, True, False]
    assert hashes(["ab"]) == hashes(["ba"])


def test_an_id_stored_again_counts_by_its_newest_row() -> None:
    index = KeyIndex()
    for at in (1, 5, 3):
        add(index, ["m"], at)
    assert contains(index, ["m"], 5) == [True]
    assert contains(index, ["m"], 6) == [False]


def test_the_window_begins_with_its_first_microsecond() -> None:
    index = KeyIndex()
    add(index, ["m"], 10)
    assert contains(index, ["m"], 10) == [True]
    assert contains(index, ["m"], 11) == [False]


def test_many_small_batches_end_in_few_runs() -> None:
    index = KeyIndex()
    for n in range(200):
        add(index, [f"m{n}"], n)
    assert len(index) == 200
    assert len(index._runs) <= 8
    assert all(contains(index, [f"m{n}" for n in range(200)]))


def test_many_small_batches_are_kept_in_few_files() -> None:
    index = KeyIndex()
    for i in range(200):
        add(index, [f"m{i}", f"n{i}"], i)
    assert contains(index, [f"m{i}" for i in range(200)]) == [True] * 200
    assert contains(index, ["m200", "n-1"]) == [False, False]
    assert contains(index, ["n7"], 8) == [False]
    assert sum(len(run.files) for run in index._runs) <= 3 * 16


@given(st.lists(st.tuples(ids, st.booleans()), max_size=20))
def test_what_is_kept_of_sorted_ids_is_sorted_as_if_anew(chosen: list[tuple[str, bool]]) -> None:
    everything = hashed([i for i, _ in chosen])
    kept = everything.where(np.array([keep for _, keep in chosen], dtype=np.bool_))
    assert kept.ids.to_pylist() == [i for i, keep in chosen if keep]
    assert kept.hashes.tolist() == hashes(kept.ids.to_pylist()).tolist()
    assert sorted(kept.by_hash.tolist()) == list(range(len(kept)))
    assert kept.hashes[kept.by_hash].tolist() == sorted(kept.hashes.tolist())
