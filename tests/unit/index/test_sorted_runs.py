"""Sorted runs of entries, in memory and in objects, against plain lists."""

from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.store.id_index import BLOCK
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.index import entries as entries_module
from messagestore_jobs.index.entries import Entries, MemoryRun, SortedRun, entries_of, merged
from messagestore_jobs.index.keys import Hasher, Keys, words
from messagestore_jobs.index.sorted_runs import StoredRun, TornIndexError, write_sorted_run

Entry = tuple[int, int, int]

# Few values, so that most collide; also the smallest and the largest.
halves = st.sampled_from([0, 1, 2, 1 << 63, (1 << 64) - 2, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1)
entry = st.tuples(halves, st.sampled_from([0, 1, 7]), st.integers(-5, 5))
some = st.lists(entry, max_size=40)


def keys(hashes: list[tuple[int, int]]) -> Keys:
    high, low = np.array(hashes, dtype=np.uint64).reshape(-1, 2).T
    return Keys.of(high, low)


def entries(of: list[Entry]) -> Entries:
    return entries_of(keys([e[:2] for e in of]), np.array([e[2] for e in of], dtype=np.int64))


def stored(of: Entries, folder: Path) -> StoredRun:
    objects = Objects(f"file://{folder}", Storage())
    half = len(of) // 2
    info = write_sorted_run(objects, f"ids-{uuid4().hex}", [of[:half], of[half:]], len(of))
    assert info is not None
    return StoredRun(objects, info, folder)


def found(run: SortedRun, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(zip(*(side.tolist() for side in run.find(keys(asked))), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@given(some, some)
def test_a_run_has_the_entries_that_were_put_in(folder: Path, of: list[Entry], others: list[Entry]) -> None:
    asked = [e[:2] for e in [*of, *others]]
    expected = sorted((place, e[2]) for place, name in enumerate(asked) for e in of if e[:2] == name)
    assert found(MemoryRun(entries(of)), asked) == expected
    if of:
        assert found(stored(entries(of), folder), asked) == expected


@given(some, halves, halves)
def test_a_range_has_what_lies_in_it(folder: Path, of: list[Entry], one: int, other: int) -> None:
    first, last = min(one, other), max(one, other)
    expected = sorted(e for e in of if first <= e[0] <= last)
    either: list[SortedRun] = [MemoryRun(entries(of)), *([stored(entries(of), folder)] if of else [])]
    for run in either:
        assert sorted(run.between(first, last).tolist()) == expected


def test_many_entries_are_found_among_many_blocks(folder: Path) -> None:
    names = [f"m{number}" for number in range(20_000)]
    every = Hasher(b"key").keys(names)
    run = stored(entries_of(every, np.arange(len(names))), folder)
    assert len(run) > 100 * BLOCK
    hits = run.find(every)
    assert sorted(hits.indices.tolist()) == list(range(len(names)))
    assert (hits.indices == hits.values).all()
    assert not len(run.find(Hasher(b"key").keys([f"n{number}" for number in range(20_000)])).indices)


def test_one_hash_may_fill_many_blocks(folder: Path) -> None:
    of = [(5, 5, value) for value in range(3 * BLOCK)] + [(4, 4, -1), (6, 6, -1)]
    run = stored(entries(of), folder)
    assert len(found(run, [(5, 5)])) == 3 * BLOCK
    assert found(run, [(4, 4), (6, 6)]) == [(0, -1), (1, -1)]


@given(st.lists(some, min_size=1, max_size=4), st.integers(1, 50))
def test_merged_runs_have_all_entries_in_order(folder: Path, several: list[list[Entry]], span: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries_module, "_SPAN", span)
        parts = list(merged([MemoryRun(entries(of)) for of in several], lambda part: part))
    together = np.concatenate(parts)
    assert sorted(together.tolist()) == sorted(e for of in several for e in of)
    assert together["high"].tolist() == sorted(together["high"].tolist())


@pytest.mark.parametrize("at", [0, 5 * 24 + 3, -1, -200, -2000])
def test_a_changed_byte_is_noticed_and_never_believed(tmp_path: Path, at: int) -> None:
    every = Hasher(b"key").keys([f"m{number}" for number in range(1000)])
    objects = Objects(f"file://{tmp_path}", Storage())
    info = write_sorted_run(objects, f"ids-{uuid4().hex}", [entries_of(every, np.arange(1000))], 1000)
    content = bytearray((tmp_path / info.name).read_bytes())
    content[at] ^= 1
    (tmp_path / info.name).write_bytes(content)
    with pytest.raises(TornIndexError, match="is not what was written"):
        StoredRun(objects, info, tmp_path).find(every)


@pytest.mark.parametrize("content", [None, b"", b"x" * 100])
def test_an_object_that_is_gone_or_cut_short_is_noticed(tmp_path: Path, content: bytes | None) -> None:
    objects = Objects(f"file://{tmp_path}", Storage())
    info = write_sorted_run(objects, f"ids-{uuid4().hex}", [entries([(1, 2, 3)])], 1)
    (tmp_path / info.name).unlink()
    if content is not None:
        (tmp_path / info.name).write_bytes(content)
    with pytest.raises(TornIndexError):
        StoredRun(objects, info, tmp_path).find(Hasher(b"key").keys(["m1"]))


def test_a_run_tells_when_the_newest_of_its_messages_came_also_of_one_that_left(tmp_path: Path) -> None:
    objects = Objects(f"file://{tmp_path}", Storage())
    came, left = [(1, 1, 70), (2, 2, 50)], [(3, 3, ~90)]
    for told, newest in ((came, 70), (left, 90), (came + left, 90)):
        info = write_sorted_run(objects, f"ids-{uuid4().hex}", [entries(told)], len(told))
        assert info is not None
        run = StoredRun(objects, info, tmp_path)
        assert (run.is_older(newest), run.is_older(newest + 1)) == (False, True)


def test_a_run_of_nothing_leaves_no_object(tmp_path: Path) -> None:
    assert write_sorted_run(Objects(f"file://{tmp_path}", Storage()), f"ids-{uuid4().hex}", [], 5) is None
    assert list(tmp_path.iterdir()) == []


def test_hashes_are_read_from_any_piece_of_a_column() -> None:
    hashes = [bytes([n] * 16) for n in range(10)]
    whole = pa.chunked_array([pa.array(hashes[:4], pa.binary()), pa.array(hashes[4:], pa.binary())]).slice(2, 6)
    high, low = words(whole)
    assert high.tolist() == low.tolist() == [int.from_bytes(h[:8]) for h in hashes[2:8]]


class Refusing(Objects):
    """Objects as on an object storage that refuses them."""

    def local_path(self, name: str) -> None:
        return None

    def file(self, name: str, size: int = 0) -> pa.NativeFile:
        raise PermissionError("AWS Error ACCESS_DENIED")


def test_an_object_that_is_refused_is_not_taken_for_a_torn_index(tmp_path: Path) -> None:
    info = write_sorted_run(Objects(f"file://{tmp_path}", Storage()), f"ids-{uuid4().hex}", [entries([(1, 2, 3)])], 1)
    with pytest.raises(PermissionError, match="ACCESS_DENIED"):
        StoredRun(Refusing(f"file://{tmp_path}", Storage()), info, tmp_path).find(keys([(1, 2)]))
