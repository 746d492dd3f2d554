"""The record of what was read from topics."""

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore_core.store import offsets
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.offsets import OffsetBatch, OffsetRange, Partition, ReadOffsets, offsets_in_order
from messagestore_core.store.schemas import OFFSETS
from support.stores import add_rows, make_store

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
def test_read_offsets_are_the_same_whichever_superseded_rows_are_left_out(uri: str, history: list[Step]) -> None:
    sources = {f"{uuid4()}": superseded for superseded in (0, 10_000)}
    for number, step in enumerate(history, 1):
        answers = []
        for source, superseded in sources.items():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(offsets, "SUPERSEDED", superseded)
                read = ReadOffsets(HeldStore(uri), source)
                read.write_down(batch_of(number, step, again=False))
                if step.again:
                    read.plan_anew(batch_of(number, step, again=True))
            last = batch_of(number, step, again=step.again)
            assert told(read, last) == told(ReadOffsets(HeldStore(uri), source), last)
            answers.append(told(read, last))
        assert answers[0] == answers[1]


def test_superseded_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "SUPERSEDED", 4)
    uri = make_store(tmp_path / "store", []).uri
    read = ReadOffsets(HeldStore(uri), "own")
    for number in range(1, 12):
        read.write_down(batch_of(number, Step([0, 1], [1] if number == 2 else [], again=False), again=False))
        # Two current rows, one about a loss, those of the new batch, and four superseded rows.
        assert Store(uri).table("offsets").count() <= 2 + 1 + 2 + 4 + 2
    found = ReadOffsets(HeldStore(uri), "own").lost()
    assert found == read.lost()
    assert (found[0], found[1].number) == (4, 2)
    assert {at.offset for at in ReadOffsets(HeldStore(uri), "own").read_up_to().values()} == {120}


def reads(uri: str, *topics: str, source: str = "own") -> dict[str, str]:
    """The source URIs of the next batch, which reads one record of each topic, named by its id: name-number."""
    read = ReadOffsets(HeldStore(uri), source)
    ranges = offsets_in_order(OffsetRange(Partition(one.partition("-")[0], one, 0), 0, 1, 1) for one in topics)
    batch = OffsetBatch(read.next_number(), AT, ranges, generations=read.generations(ranges))
    read.write_down(batch)
    assert ReadOffsets(HeldStore(uri), source).planned(batch.number) == batch
    return {r.partition.topic_id: batch.uri(r.partition) for r in ranges}


def test_topics_of_one_name_are_numbered_in_the_order_in_which_they_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "SUPERSEDED", 0)
    uri = make_store(tmp_path / "store", []).uri
    assert reads(uri, "orders-9", "bills-1") == {"orders-9": "kafka:orders", "bills-1": "kafka:bills"}
    assert reads(uri, "orders-5") == {"orders-5": "kafka:orders@2"}
    assert reads(uri, "orders-7", source="another") == {"orders-7": "kafka:orders@3"}
    # A stream that goes back to a cluster finds its topic there.
    again = {"orders-9": "kafka:orders", "orders-5": "kafka:orders@2", "orders-7": "kafka:orders@3"}
    for _ in range(3):
        for topic, known in again.items():
            assert reads(uri, topic) == {topic: known}


def test_another_source_knows_a_topic_that_was_read_since_it_was_opened(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    opened = ReadOffsets(HeldStore(uri), "another")
    assert reads(uri, "orders-1")
    ranges = [OffsetRange(Partition("orders", "orders-2", 0), 0, 1, 1)]
    assert opened.generations(ranges) == {"orders-2": 2}


def test_where_an_earlier_release_noted_no_generation_the_topic_that_it_read_first_is_the_first(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    rows = [
        {"source_id": "own", "batch": batch, "at": AT.replace(day=batch), "topic": "orders", "topic_id": topic_id}
        | {"partition": 0, "start": 0, "end": 1, "latest": 1, "lost": None, "generation": None}
        for batch, topic_id in ((1, "orders-8"), (2, "orders-3"))
    ]
    add_rows(HeldStore(uri), "offsets", pa.Table.from_pylist(rows, schema=OFFSETS))
    # A batch that it planned is repeated as it was.
    read = ReadOffsets(HeldStore(uri), "own")
    planned = read.planned(2)
    assert planned.uri(planned.ranges[0].partition) == "kafka:orders"
    assert reads(uri, "orders-3") == {"orders-3": "kafka:orders@2"}
    assert reads(uri, "orders-8") == {"orders-8": "kafka:orders"}
    assert reads(uri, "orders-4") == {"orders-4": "kafka:orders@3"}
