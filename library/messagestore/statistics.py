"""Statistics of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from messagestore.arguments import time_in_utc
from messagestore.errors import ArgumentError
from messagestore.sql import TABLE, equals
from messagestore.sql import since as after
from messagestore.versions import Versions
from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.schemas import DEAD_LETTERS


@dataclass(frozen=True)
class CategoryStatistics:
    """Figures of one category."""

    category: str
    messages: int
    streams: int
    payload_bytes: int
    oldest_time: datetime
    newest_time: datetime
    last_global_position: int


@dataclass(frozen=True)
class Statistics:
    """Figures of a store at one version of table ``messages``.

    Attributes:
        version: of ``messages``.
        committed_at: when the version was committed; None where the log no longer has it.
        file_bytes: size of that version's files.
        totals: what happened to all records that runs have read.
        statuses: messages by status.
        dead_letters: those that were not redriven, by reason.
        categories: figures by category, in order of name.
    """

    version: int
    committed_at: datetime | None
    file_bytes: int
    totals: IngestCounts
    statuses: dict[str, int]
    dead_letters: dict[str, int]
    categories: tuple[CategoryStatistics, ...]

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(category.messages for category in self.categories)


_CATEGORIES = f"""
select category, count(*) as messages, count(distinct stream_name) as streams,
  coalesce(sum(payload_size), 0) as payload_bytes, min(time) as oldest_time, max(time) as newest_time,
  max(global_position) as last_global_position
from {TABLE} group by category order by category
"""


@dataclass(frozen=True)
class Share:
    """How many messages have some values in common.

    Attributes:
        values: in the order in which they were asked for.
        messages: how many.
        percent: of all messages, to two digits.
    """

    values: tuple[str | None, ...]
    messages: int
    percent: float


PARTS = {"stream": "stream_name", "category": "category", "type": "type", "status": "status"}
"""What messages can be counted by, and its column."""


def summary(versions: Versions, by: Sequence[str]) -> list[Share]:
    """Count messages by some of PARTS, like message-db's views of that name; in order of the values.

    Raises:
        ArgumentError: there is no such part, one is given twice, or none is given.
    """
    unknown = [part for part in by if part not in PARTS]
    if unknown or not by:
        raise ArgumentError(f"messages are counted by {', '.join(PARTS)}; {', '.join(unknown) or 'nothing'} was given")
    if len(set(by)) < len(by):
        raise ArgumentError(f"messages are counted by each part once; {', '.join(by)} was given")
    columns = ", ".join(f'"{PARTS[part]}"' for part in by)
    order = ", ".join(f"{at} asc nulls last" for at in range(1, len(by) + 1))
    rows = versions.snapshot().query(
        f"select {columns}, count(*) as n from {TABLE} group by {columns} order by {order}"
    )
    *values, counts = (column.to_pylist() for column in rows.columns)
    total = sum(counts)
    return [
        Share(one, count, _percent(count, total)) for one, count in zip(zip(*values, strict=True), counts, strict=True)
    ]


def _percent(count: int, total: int) -> float:
    """A half is rounded up, as PostgreSQL does."""
    return (count * 20_000 + total) // (2 * total) / 100


@dataclass(frozen=True)
class Elapsed:
    """The time between two messages of the same correlation, over all of these.

    Attributes:
        correlations: that have both; without any, the times are None.
        open: that have the first message only.
        median: about, as the p95 is: of many correlations it is an approximation.
    """

    correlations: int
    open: int
    shortest: timedelta | None
    median: timedelta | None
    p95: timedelta | None
    longest: timedelta | None


def elapsed(versions: Versions, first: str, then: str, since: datetime | None) -> Elapsed:
    """The time from the earliest message of type ``first`` to the earliest one of type ``then`` that is not before it.

    Control bus of Woolf & Brown: how long answers take.

    Args:
        since: only correlations whose first message has at least this time; None: all.

    Raises:
        ArgumentError: ``since`` has no time zone.
    """
    begun = f"where {after('began', time_in_utc('since', since))}" if since else ""
    rows = versions.snapshot().query(f"""
with began as (
  select * from (
    select correlation_id, min(time) as began from {TABLE}
    where {equals("type", first)} and correlation_id is not null group by 1
  ) {begun}
), spans as (
  select began.correlation_id, arrow_cast(min(ended.time), 'Int64') - arrow_cast(min(began.began), 'Int64') as span
  from began left join (
    select correlation_id, time from {TABLE} where {equals("type", then)} and correlation_id is not null
  ) as ended on ended.correlation_id = began.correlation_id and ended.time >= began.began
  group by 1
)
select count(span) as correlations, count(*) - count(span) as open, min(span) as shortest,
  approx_percentile_cont(0.5) within group (order by span) as median,
  approx_percentile_cont(0.95) within group (order by span) as p95, max(span) as longest
from spans
""")
    ((correlations, waiting, *spans),) = [tuple(row.values()) for row in rows.to_pylist()]
    return Elapsed(correlations, waiting, *(None if one is None else timedelta(microseconds=one) for one in spans))


def statistics(versions: Versions) -> Statistics:
    """Count a store's messages; reads a few columns of all rows."""
    snapshot = versions.snapshot()
    file_bytes, totals = versions.totals()
    return Statistics(
        version=snapshot.version,
        committed_at=versions.committed_at(),
        file_bytes=file_bytes,
        totals=totals,
        statuses=_counts(snapshot.query(f"select status, count(*) as n from {TABLE} group by 1 order by 1")),
        dead_letters=_counts(
            versions.other("dead_letters", DEAD_LETTERS).query(
                f"select reason, count(*) as n from {TABLE} where redriven_at is null group by 1 order by 1"
            )
        ),
        categories=tuple(CategoryStatistics(**row) for row in snapshot.query(_CATEGORIES).to_pylist()),
    )


def _counts(rows: pa.Table) -> dict[str, int]:
    names, counts = rows.columns
    return dict(zip(names.to_pylist(), counts.to_pylist(), strict=True))
