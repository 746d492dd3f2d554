"""What a store holds and what happened to it, in a few hundred figures: what its page shows.

No column is read that may be large: messages are counted by four narrow ones, batches are known from the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from messagestore.location import Location, refusals
from messagestore.sql import TABLE
from messagestore.versions import Versions
from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.delta_log import CommitNote, note_in
from messagestore_core.store.layout import LOG, entry_name
from messagestore_core.store.notes import commit_time, entry_of
from messagestore_core.store.schemas import DEAD_LETTERS, FILES, OFFSETS

_ENTRIES_AT_ONCE = 16


@dataclass(frozen=True)
class Part:
    """The messages that were stored on one day (UTC) and have category, type and status in common."""

    day: date
    category: str
    type: str | None
    status: str
    messages: int
    payload_bytes: int


@dataclass(frozen=True)
class Reason:
    """The dead letters of one reason: those that wait, and those that were redriven."""

    reason: str
    open: int
    redriven: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Batch:
    """One batch of an ingest.

    Attributes:
        number: of its source.
        at: its clock, by which its messages were judged.
        committed_at: since when its messages can be read.
        arrived_at: when the oldest of its files was written; None: it read a topic.
        unread: records of the topic that were left for later batches; None: it read files.
        counts: what became of its records.
    """

    source_id: str
    number: int
    at: datetime
    committed_at: datetime
    arrived_at: datetime | None
    unread: int | None
    counts: IngestCounts

    @property
    def lag(self) -> timedelta | None:
        """How long its oldest file had waited when it began; None where that is not known."""
        return _since(self.arrived_at, self.at)

    @property
    def visible_after(self) -> timedelta | None:
        """How long it took from the arrival of its oldest file until its messages could be read."""
        return _since(self.arrived_at, self.committed_at)


@dataclass(frozen=True)
class Overview:
    """Figures of a store at one version of ``messages``.

    Attributes:
        version: of ``messages``.
        committed_at: when it was committed; None where the log no longer has it.
        file_bytes: size of that version's files.
        totals: what happened to all records that runs have read.
        parts: all messages, by day, category, type and status.
        reasons: all dead letters, by reason.
        batches: the last ones, oldest first, as far as the log has them and the commits before.
    """

    version: int
    committed_at: datetime | None
    file_bytes: int
    totals: IngestCounts
    parts: tuple[Part, ...]
    reasons: tuple[Reason, ...]
    batches: tuple[Batch, ...]


_PARTS = f"""
select inserted_date as day, category, type, status, count(*) as messages,
  coalesce(sum(payload_size), 0) as payload_bytes
from {TABLE} group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""
_REASONS = f"""
select reason, count(*) - count(redriven_at) as open, count(redriven_at) as redriven,
  min(failed_at) as first, max(failed_at) as last
from {TABLE} group by 1 order by 1
"""
_OF_FILES = f"""
select source_id, batch, min(at) as at, min(modified_at) as arrived_at, cast(null as bigint) as unread
from {TABLE} where "end" >= 0 group by 1, 2
"""
_OF_TOPICS = f"""
select source_id, batch, min(at) as at, null as arrived_at, sum(latest - "end") as unread
from {TABLE} where lost is null group by 1, 2
"""


_UPDATES = "source_id like 'updates-%'"


def updates_source(versions: Versions) -> str | None:
    """The source of the batch of status updates that was planned last: a file's URI, or a topic; None without any."""
    files, topics = versions.other("files", FILES), versions.other("offsets", OFFSETS)
    last = [
        *files.rows((_UPDATES,), ("at desc",), 1, ("at", "uri")).to_pylist(),
        *topics.rows((_UPDATES,), ("at desc",), 1, ("at", "topic")).to_pylist(),
    ]
    newest = max(last, key=lambda row: row["at"], default=None)
    return newest and (newest.get("uri") or f"topic {newest['topic']}")


def overview(location: Location, versions: Versions, batches: int) -> Overview:
    """Count a store's messages, and tell its last batches, those of the last ``batches`` commits."""
    snapshot = versions.snapshot()
    file_bytes, totals = versions.totals()
    return Overview(
        version=snapshot.version,
        committed_at=versions.committed_at(),
        file_bytes=file_bytes,
        totals=totals,
        parts=tuple(Part(**row) for row in snapshot.query(_PARTS).to_pylist()),
        reasons=tuple(
            Reason(**row) for row in versions.other("dead_letters", DEAD_LETTERS).query(_REASONS).to_pylist()
        ),
        batches=tuple(_batches(versions, snapshot.version, _commits(location, snapshot.version, batches))),
    )


class _Commit(NamedTuple):
    """One commit; without a note it is somebody else's, and changed no totals."""

    at: datetime
    note: CommitNote | None
    transactions: Mapping[str, int]


def _commits(location: Location, newest: int, count: int) -> list[_Commit | None]:
    """The last commits on ``messages``, oldest first; None for those that the log no longer has."""
    log = location.objects("messages", LOG)
    names = [entry_name(version) for version in range(max(0, newest - count), newest + 1)]
    with refusals(location.uri), ThreadPoolExecutor(_ENTRIES_AT_ONCE) as threads:
        return [_commit(content) for content in threads.map(log.read, names)]


def _commit(content: bytes | None) -> _Commit | None:
    at = commit_time(content or b"")
    if content is None or at is None:
        return None
    entry = entry_of(content)
    return _Commit(at, note_in(entry.said), entry.transactions or {})


def _batches(versions: Versions, newest: int, commits: Sequence[_Commit | None]) -> Iterator[Batch]:
    """The batches of commits: a commit's transactions name them, and its totals less those before are their counts."""
    planned = {
        (row["source_id"], row["batch"]): row
        for name, schema, text in (("files", FILES, _OF_FILES), ("offsets", OFFSETS, _OF_TOPICS))
        for row in versions.other(name, schema).query(text).to_pylist()
    }
    # The first commit makes the table.
    before = IngestCounts() if len(commits) == newest + 1 else None
    for commit in commits:
        if commit is None:
            before = None
        elif commit.note is not None:
            if before is not None:
                counts = commit.note.totals - before
                keys = [key for key in commit.transactions.items() if key in planned]
                yield from (_batch(planned[key], commit.at, counts) for key in keys)
            before = commit.note.totals


def _batch(row: Mapping[str, Any], committed_at: datetime, counts: IngestCounts) -> Batch:
    times = {"at": row["at"], "arrived_at": row["arrived_at"], "committed_at": committed_at}
    return Batch(source_id=row["source_id"], number=row["batch"], unread=row["unread"], counts=counts, **times)


def _since(begin: datetime | None, end: datetime) -> timedelta | None:
    """The time between; None where the clock of a run was set, so that there is none."""
    return None if begin is None or end < begin else end - begin
