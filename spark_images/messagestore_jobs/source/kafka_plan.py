"""Which offsets of which partitions the next batch reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from messagestore_jobs.source.parts import packed
from messagestore_jobs.store.offsets import OffsetRange, Partition, ReadUpTo, in_order

RETENTION: Final = "Retention"
"""The broker removed the records before they were read."""
TOPIC_DELETED: Final = "TopicDeleted"
"""The topic was deleted, and made again, before they were read."""

_PACED_SECONDS = 5
"""A batch is what the rate allows in this time."""
_SHARE_OF_HEAP = 4
_BYTES_A_RECORD = 1024
"""About what a driver holds of each while a batch is decided on: its id, its stream, hashes and positions."""


@dataclass(frozen=True)
class Listed:
    """A partition as it was listed: its records have offsets in [earliest, latest)."""

    partition: Partition
    earliest: int
    latest: int


def most_records(wanted: int | None, setting: int, rate: float | None, heap: int) -> int:
    """How many records a batch may have: the least of what the stream asks for and a driver may hold.

    Args:
        wanted: by the stream; None is no bound.
        setting: the run's own bound.
        rate: records a second that the stream may take; None is no bound.
        heap: in bytes.
    """
    paced = setting if rate is None else max(1, round(rate * _PACED_SECONDS))
    return min(wanted or setting, setting, paced, max(1, heap // (_SHARE_OF_HEAP * _BYTES_A_RECORD)))


def pending(listed: Iterable[Listed], read: Mapping[Partition, ReadUpTo], *, from_latest: bool) -> list[OffsetRange]:
    """What has not been read, in order of arrival; ranges that are gone say why in ``lost``.

    Args:
        listed: the source's partitions, now.
        read: how far each has been read; empty before the first batch.
        from_latest: whether a source of which nothing has been read begins at the partitions' ends. Ranges without an
            offset in them then remember where that was.
    """
    found = list(listed)
    if not read and from_latest:
        return list(in_order(OffsetRange(one.partition, one.latest, one.latest, one.latest) for one in found))
    return list(in_order([*_of_deleted(found, read), *(r for one in found for r in _of_partition(one, read))]))


def _of_partition(one: Listed, read: Mapping[Partition, ReadUpTo]) -> list[OffsetRange]:
    before = read.get(one.partition)
    start = before.offset if before else one.earliest
    # A log that lost its end, as brokers may after a crash, goes on below what was read.
    start = min(start, one.latest)
    ranges = []
    if start < one.earliest:
        ranges.append(OffsetRange(one.partition, start, one.earliest, one.latest, RETENTION))
        start = one.earliest
    if start < one.latest:
        ranges.append(OffsetRange(one.partition, start, one.latest, one.latest))
    return ranges


def _of_deleted(listed: Sequence[Listed], read: Mapping[Partition, ReadUpTo]) -> list[OffsetRange]:
    """Of topics that were made again: what the former ones held, as far as that was known, and was not read."""
    now = {one.partition.topic: one.partition.topic_id for one in listed}
    return [
        OffsetRange(partition, up_to.offset, up_to.latest, up_to.latest, TOPIC_DELETED)
        for partition, up_to in read.items()
        if now.get(partition.topic, partition.topic_id) != partition.topic_id and up_to.offset < up_to.latest
    ]


def next_batch(waiting: Sequence[OffsetRange], limit: int) -> tuple[OffsetRange, ...]:
    """The first of the ranges' records, at most ``limit`` of them: each partition's fair share.

    What is lost takes no room.
    """
    lost = [r for r in waiting if r.lost or r.start == r.end]
    here = [r for r in waiting if not r.lost and r.start < r.end]
    total = sum(r.end - r.start for r in here)
    if total <= limit:
        return in_order([*lost, *here])
    shares = {r: (r.end - r.start) * limit // total for r in here}
    # What rounding left over goes to those where most waits, so that none is left behind for ever.
    for r in sorted(here, key=lambda r: r.start - r.end)[: limit - sum(shares.values())]:
        shares[r] += 1
    return in_order([*lost, *(replace(r, end=r.start + share) for r, share in shares.items() if share)])


def rest(waiting: Sequence[OffsetRange], taken: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What still waits once :func:`next_batch` has taken its ranges."""
    ends = {(r.partition, r.start): r.end for r in taken}
    left = (replace(r, start=ends.get((r.partition, r.start), r.start)) for r in waiting)
    return [r for r in left if r.start < r.end]


def parts(ranges: Iterable[OffsetRange], target: int) -> list[list[OffsetRange]]:
    """The ranges that are read, cut and packed into parts of about ``target`` records, in order of arrival."""
    return packed(_pieces(ranges, target), target)


def _pieces(ranges: Iterable[OffsetRange], target: int) -> Iterable[OffsetRange]:
    for r in ranges:
        if r.lost is None:
            for start in range(r.start, r.end, target):
                yield replace(r, start=start, end=min(start + target, r.end))


def still_there(planned: Sequence[OffsetRange], listed: Iterable[Listed]) -> tuple[OffsetRange, ...]:
    """A planned batch that could not be read, with what is gone of it by now told as lost; often the same."""
    now = {one.partition: one for one in listed}
    return in_order(r for one in planned for r in _what_is_left(one, now.get(one.partition)))


def _what_is_left(r: OffsetRange, now: Listed | None) -> list[OffsetRange]:
    if r.lost or r.start == r.end:
        return [r]
    if now is None:
        return [replace(r, lost=TOPIC_DELETED)]
    # What a log lost at its end is no record any more: the range ends earlier, and goes on from there.
    end = max(r.start, min(r.end, now.latest))
    if now.earliest <= r.start:
        return [replace(r, end=end)]
    first = min(now.earliest, end)
    return [replace(r, end=first, lost=RETENTION), *([replace(r, start=first, end=end)] if first < end else [])]
