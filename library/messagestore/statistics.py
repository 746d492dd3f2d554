"""Statistics of a store."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from messagestore.location import refusals
from messagestore.sql import TABLE
from messagestore.versions import Versions
from messagestore_core.contract.run_report import IngestCounts
from messagestore_core.store.delta_log import note_of
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


def statistics(uri: str, versions: Versions) -> Statistics:
    """Count a store's messages; reads a few columns of all rows."""
    table = versions.table()
    with refusals(uri):
        files = pa.table(table.get_add_actions(flatten=True))
        totals = note_of(table).totals
    snapshot = versions.snapshot()
    return Statistics(
        version=snapshot.version,
        committed_at=versions.committed_at(),
        file_bytes=sum(files["size_bytes"].to_pylist()),
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
