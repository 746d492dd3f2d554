"""Which offsets a batch reads: each once, in order, and none is skipped silently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.store.offsets import OffsetRange, Partition, ReadUpTo
from messagestore_jobs.source.plan import (
    Listed,
    most_records,
    next_offsets,
    parts_of_offsets,
    pending_offsets,
    rest_of_offsets,
    still_stored,
)

ORDERS = Partition("orders", "id-1", 0)
AGAIN = Partition("orders", "id-2", 0)


def listed(earliest: int, latest: int, partition: Partition = ORDERS) -> Listed:
    return Listed(partition, earliest, latest)


def offsets(ranges: list[OffsetRange] | tuple[OffsetRange, ...]) -> list[tuple[int, int, str | None]]:
    return [(r.start, r.end, r.lost) for r in ranges]


def test_a_partition_never_read_begins_at_its_first_record() -> None:
    assert offsets(pending_offsets([listed(3, 9)], {}, from_latest=False)) == [(3, 9, None)]


def test_from_latest_only_the_first_look_begins_at_the_end() -> None:
    first = pending_offsets([listed(3, 9)], {}, from_latest=True)
    assert offsets(first) == [(9, 9, None)]
    new = Listed(Partition("orders", "id-1", 1), 0, 4)
    later = pending_offsets([listed(3, 11), new], {ORDERS: ReadUpTo(9, 9)}, from_latest=True)
    assert offsets(later) == [(9, 11, None), (0, 4, None)]


def test_records_that_retention_removed_before_they_were_read_are_reported() -> None:
    read = {ORDERS: ReadUpTo(5, 8)}
    assert offsets(pending_offsets([listed(7, 9)], read, from_latest=False)) == [(5, 7, "Retention"), (7, 9, None)]
    assert offsets(pending_offsets([listed(9, 9)], read, from_latest=False)) == [(5, 9, "Retention")]


def test_a_topic_made_again_is_another_one_and_what_was_left_of_the_first_is_told() -> None:
    read = {ORDERS: ReadUpTo(5, 8)}
    assert offsets(pending_offsets([listed(0, 2, AGAIN)], read, from_latest=False)) == [
        (5, 8, "TopicDeleted"),
        (0, 2, None),
    ]
    read = {ORDERS: ReadUpTo(8, 8), AGAIN: ReadUpTo(2, 2)}
    assert pending_offsets([listed(0, 2, AGAIN)], read, from_latest=False) == []


def test_a_log_that_lost_its_end_goes_on_from_there() -> None:
    read = {ORDERS: ReadUpTo(9, 9)}
    end = pending_offsets([listed(0, 6)], read, from_latest=False)
    assert offsets(end) == [(6, 6, None)]
    assert pending_offsets([listed(0, 6)], {ORDERS: ReadUpTo(6, 6)}, from_latest=False) == []
    assert offsets(pending_offsets([listed(0, 12)], {ORDERS: ReadUpTo(6, 6)}, from_latest=False)) == [(6, 12, None)]
    assert next_offsets(end, 10) == tuple(end)


def test_a_topic_that_is_read_no_more_is_not_lost() -> None:
    assert pending_offsets([], {ORDERS: ReadUpTo(5, 8)}, from_latest=False) == []


ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=6).map(
    lambda bounds: [
        OffsetRange(Partition("orders", "id-1", i), start, start + size, start + size)
        for i, (start, size) in enumerate(bounds)
    ]
)


@given(ranges, st.integers(1, 80))
def test_batches_take_each_offset_once_and_keep_within_the_limit(waiting: list[OffsetRange], limit: int) -> None:
    taken: dict[int, int] = {r.partition.number: r.start for r in waiting}
    left = waiting
    while left:
        batch = next_offsets(left, limit)
        assert 0 < sum(r.end - r.start for r in batch) <= limit
        for r in batch:
            assert r.start == taken[r.partition.number]
            taken[r.partition.number] = r.end
        left = rest_of_offsets(left, batch)
    assert taken == {r.partition.number: r.end for r in waiting}


@given(ranges, st.integers(1, 40))
def test_parts_hold_each_offset_once_in_order(waiting: list[OffsetRange], target: int) -> None:
    pieces = [piece for part in parts_of_offsets(waiting, target) for piece in part]
    found = [(p.partition.number, offset) for p in pieces for offset in range(p.start, p.end)]
    assert found == [(r.partition.number, offset) for r in waiting for offset in range(r.start, r.end)]


def test_lost_ranges_are_taken_with_the_next_batch_and_never_read() -> None:
    waiting = pending_offsets([listed(7, 9)], {ORDERS: ReadUpTo(5, 8)}, from_latest=False)
    batch = next_offsets(waiting, 1)
    assert offsets(batch) == [(5, 7, "Retention"), (7, 8, None)]
    assert [offsets(part) for part in parts_of_offsets(batch, 10)] == [[(7, 8, None)]]
    assert offsets(rest_of_offsets(waiting, batch)) == [(8, 9, None)]


def test_a_planned_batch_tells_what_is_gone_since() -> None:
    planned = (OffsetRange(ORDERS, 2, 8, 8),)
    assert still_stored(planned, [listed(0, 9)]) == planned
    assert offsets(still_stored(planned, [listed(5, 9)])) == [(2, 5, "Retention"), (5, 8, None)]
    assert offsets(still_stored(planned, [listed(9, 9)])) == [(2, 8, "Retention")]
    assert offsets(still_stored(planned, [listed(0, 9, AGAIN)])) == [(2, 8, "TopicDeleted")]
    assert offsets(still_stored(planned, [listed(0, 6)])) == [(2, 6, None)]


@pytest.mark.parametrize(
    ("wanted", "rate", "heap", "held", "most"),
    [
        (None, None, 8 << 30, 9_000_000, 1_000_000),
        (500_000, None, 8 << 30, 9_000_000, 500_000),
        (500_000, None, 1 << 30, 9_000_000, 262_144),
        (500_000, None, 1 << 30, 90_000, 90_000),
        (500_000, 20, 1 << 30, 90_000, 100),
        (None, 0.01, 1 << 30, 90_000, 1),
        (None, None, 100, 90_000, 1),
    ],
)
def test_a_batch_has_the_least_of_what_is_asked_for_and_what_a_driver_may_hold(
    wanted: int | None, rate: float | None, heap: int, held: int, most: int
) -> None:
    assert most_records(wanted, 1_000_000, rate, heap, held) == most
