"""The record of what was read from topics."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore_core.store import offsets
from messagestore_core.store.handle import Store
from messagestore_core.store.offsets import OffsetBatch, OffsetRange, Partition, ReadOffsets
from support.stores import make_store

AT = datetime(2026, 1, 5, tzinfo=UTC)
PARTITIONS = [Partition("orders", "id-1", 0), Partition("orders", "id-1", 1), Partition("orders", "id-2", 0)]


class Step(NamedTuple):
    """A batch of some partitions; how much of each is lost before it; whether another try plans the batch again."""

    partitions: list[int]
    lost: list[int]
    again: bool


steps = st.builds(
    Step,
    st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 2), max_size=1),
    st.booleans(),
)


def batch_of(number: int, step: Step, *, again: bool) -> OffsetBatch:
    ranges = []
    for i in step.partitions:
        start, end = 10 * number, 10 * number + 10
        if i in step.lost:
            ranges.append(OffsetRange(PARTITIONS[i], start, start + 4, end, "Retention"))
            start += 4
        ranges.append(OffsetRange(PARTITIONS[i], start, end, end, "Retention" if again else None))
    return OffsetBatch(number, AT, tuple(ranges))


def told(read: ReadOffsets, last: OffsetBatch) -> tuple[object, ...]:
    return read.last_batch, read.planned(last.number), read.read_up_to(), read.lost()


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_store(tmp_path_factory.mktemp("offsets") / "store", []).uri


@given(st.lists(steps, min_size=3, max_size=5))
@settings(max_examples=3)
def test_what_counts_is_told_whatever_has_been_left_out(uri: str, history: list[Step]) -> None:
    sources = {f"{uuid4()}": superseded for superseded in (0, 10_000)}
    for number, step in enumerate(history, 1):
        answers = []
        for source, superseded in sources.items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(offsets, "SUPERSEDED", superseded)
                read = ReadOffsets(Store(uri), source)
                read.write_down(batch_of(number, step, again=False))
                if step.again:
                    read.plan_anew(batch_of(number, step, again=True))
            last = batch_of(number, step, again=step.again)
            assert told(read, last) == told(ReadOffsets(Store(uri), source), last)
            answers.append(told(read, last))
        assert answers[0] == answers[1]


def test_rows_that_count_no_more_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "SUPERSEDED", 4)
    uri = make_store(tmp_path / "store", []).uri
    read = ReadOffsets(Store(uri), "own")
    for number in range(1, 12):
        read.write_down(batch_of(number, Step([0, 1], [1] if number == 2 else [], again=False), again=False))
        # Two current rows, one about a loss, those of the new batch, and four superseded rows.
        assert Store(uri).table("offsets").count() <= 2 + 1 + 2 + 4 + 2
    found = ReadOffsets(Store(uri), "own").lost()
    assert found == read.lost()
    assert found is not None
    assert (found[0], found[1].number) == (4, 2)
    assert {at.offset for at in ReadOffsets(Store(uri), "own").read_up_to().values()} == {120}
