"""What a table's log says about its files, without reading them, and about the commits on ``messages``.

A batch takes effect with its commit on ``messages``, so counts in that commit always match what it wrote. Every commit
repeats the totals, so that the newest one has them even where older log entries are gone.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from pydantic import BaseModel, Field, ValidationError

from messagestore_core.clock import in_utc
from messagestore_core.contract.ingest import IngestCounts, UpdateCounts
from messagestore_core.contract.stores import TableState
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LAST_CHECKPOINT
from messagestore_core.store.notes import Entry, TablesNote
from messagestore_core.store.schemas import checkpoint_interval
from messagestore_core.store.statistics import complete, count_open

DAY = "partition.inserted_date"
"""The column of add actions with the day of a file of ``messages``."""
EPOCH = "messagestore-epoch"
"""The transaction whose version is the newest epoch under which a table was written."""

FIRST_GLOBAL_POSITION = 1
"""As in message-db; positions in a stream start at 0."""

_COUNTS = 1 << 53

COMPACT_BYTES = 96 << 20
"""Compaction leaves files of this size and larger as they are."""

FIRST_OPEN, _PROCESSING = "FAILED", "PROCESSING"
"""FAILED, PROCESSING and RECEIVED sort after COMPLETED and EXPIRED, so a file's statistics show which it has."""


def files_of(table: DeltaTable) -> pa.Table:
    """The table's add actions, flattened: one row per file. Without any file the columns may be missing."""
    return pa.table(table.get_add_actions(flatten=True))


def bytes_added(store: Store, name: str, version: int) -> int:
    """The bytes of the files that a commit of ours has added."""
    return sum(action["add"]["size"] for action in store.actions(name, version) if "add" in action)


def files_in(store: Store, name: str) -> pa.Table:
    """The same of a store's table, which is not opened if it is known to have no rows."""
    return pa.table({"path": pa.array([], pa.string())}) if store.is_empty(name) else files_of(store.table(name))


def of_day(files: pa.Table, day: date) -> pa.Table:
    """The files of one day; ``files`` is not empty."""
    return files.filter(pc.field(DAY) == pa.scalar(day, files[DAY].type))


def end_of(day: date) -> datetime:
    """The first moment after a day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def may_be_before(files: pa.Table, column: str, edge: datetime) -> bool:
    """Whether any row can have a time before ``edge`` in a column; files without statistics of it may."""
    name = f"min.{column}"
    if name not in files.column_names:
        return bool(files.num_rows)
    least = files[name]
    if least.null_count:
        return True
    return pc.any(pc.less(least, pa.scalar(edge, least.type))).as_py() is True


class CommitNote(TablesNote):
    """The user metadata of one commit on ``messages``."""

    run: str
    totals: IngestCounts = IngestCounts()
    updates: UpdateCounts = UpdateCounts()
    next_global_position: int | None = None
    """The store's next global position after the commit; absent: no batch of this release came."""
    events_since: int | None = None
    """The first global position since which CloudEvents are identified by source and id; absent: none came since."""


def committed_batch(store: Store, source_id: str) -> int:
    """The number of a source's last committed batch; 0 before the first. Delta keeps it, however old the log."""
    return store.transaction("messages", source_id) or 0


def last_note(store: Store) -> CommitNote:
    """The newest note; commits of others, such as an OPTIMIZE, have none and are skipped."""
    return note_at(store, store.table("messages"))


def note_at(store: Store, table: DeltaTable) -> CommitNote:
    """Like ``last_note``, for an opened table ``messages`` of a store."""
    entry = store.entry_once("messages", table.version())
    return (note_in(entry.said) if entry else None) or note_of(table)


def note_of(table: DeltaTable) -> CommitNote:
    """Like ``last_note``, for an opened table ``messages``."""
    for limit in (1, 100, None):
        for commit in table.history(limit):
            note = note_in(commit.get("userMetadata"))
            if note is not None:
                return note
    return CommitNote(run="")


def head_of(entry: Entry) -> int | None:
    """The store's last global position after a commit on ``messages``; None if the commit doesn't tell it."""
    note = note_in(entry.said)
    following = note.next_global_position if note else None
    return None if following is None else following - 1


def note_before(store: Store, version: int) -> CommitNote | None:
    """The newest note of ``messages`` up to a version; None where the log has none any more."""
    for at in range(version, -1, -1):
        entry = store.entry("messages", at)
        note = note_in(entry.said) if entry else None
        if entry is None or note is not None:
            return note
    return None


def is_own_note(text: str | None) -> bool:
    """Whether user metadata of a commit on ``messages`` is a note of one of our runs."""
    return note_in(text) is not None


def epoch_of(table: DeltaTable) -> int | None:
    """The newest epoch under which an opened table was written; None: it was never written under one."""
    epoch = table.transaction_version(EPOCH)
    return None if epoch is None else int(epoch)


def empty_commit(table: DeltaTable, name: str, properties: CommitProperties) -> None:
    """Make a commit without files; see ``append_rows``.

    Written as no rows, since the table then has the new version; it would not have that of a transaction of its own.
    """
    append_rows(table, name, pa.schema(table.schema().to_arrow()).empty_table(), properties)


def append_rows(table: DeltaTable, name: str, rows: pa.Table, properties: CommitProperties, **how: Any) -> None:
    """Append rows in one commit, and make a checkpoint where Spark makes one.

    delta-rs itself makes one at the versions before. Of two commits a run, one by each, it could be that neither does.

    Args:
        how: further arguments of ``write_deltalake``.
    """
    hooks = PostCommitHookProperties(create_checkpoint=False)
    write_deltalake(table, rows, mode="append", commit_properties=properties, post_commithook_properties=hooks, **how)
    if table.version() % checkpoint_interval(name) == 0:
        table.create_checkpoint()


def has_any(store: Store, column: str) -> bool:
    """Whether any message has a value in a column."""
    files = complete(store, "messages", files_of(store.table("messages")), column)
    return _sum(files, f"null_count.{column}") < _sum(files, "num_records")


def is_any_due(store: Store, at: datetime) -> bool:
    """Whether any file of a store may have an open message that is due to expire."""
    next_ = next_expiry(store)
    return next_ is not None and next_ <= at


def next_expiry(store: Store) -> datetime | None:
    """The first time at which a file of a store may have an open message that is due to expire; None: never."""
    return first_expiry(complete(store, "messages", files_of(store.table("messages")), "expires_at", "status"))


def first_expiry(files: pa.Table) -> datetime | None:
    """Like ``next_expiry``, for files whose statistics of expires_at and status are complete."""
    if not files.num_rows:
        return None
    bounds = zip(files["min.expires_at"].to_pylist(), files["max.status"].to_pylist(), strict=True)
    return min((in_utc(first) for first, last in bounds if first and (last or FIRST_OPEN) >= FIRST_OPEN), default=None)


def may_be_processing(store: Store) -> bool:
    """Whether any file of a store may have a message that is PROCESSING."""
    files = complete(store, "messages", files_of(store.table("messages")), "status")
    if not files.num_rows:
        return False
    bounds = zip(files["min.status"].to_pylist(), files["max.status"].to_pylist(), strict=True)
    return any((first or _PROCESSING) <= _PROCESSING <= (last or _PROCESSING) for first, last in bounds)


def count_rows(store: Store, name: str) -> int:
    """How many rows a table has; files are read only if the log doesn't tell it."""
    return _sum(complete(store, name, files_in(store, name)), "num_records")


def next_global_position(store: Store) -> int:
    """The next global position, by the last note and the messages; heads may have a larger one."""
    table = store.table("messages")
    files, noted = files_of(table), note_at(store, table).next_global_position
    if noted is None:
        files = complete(store, "messages", files, "global_position")
    return _next_position(files, noted)


def first_global_position(store: Store) -> int | None:
    """The lowest global position of a message; None without any."""
    files = complete(store, "messages", files_in(store, "messages"), "global_position")
    return _bound(files, "min.global_position", pc.min)


def _next_position(files: pa.Table, noted: int | None) -> int:
    """The larger of what a note says, and of what follows the last message."""
    last = _bound(files, "max.global_position", pc.max)
    return max(noted or FIRST_GLOBAL_POSITION, (last or 0) + 1)


def table_state(store: Store, note: CommitNote | None = None, *, count_reasons: bool = False) -> TableState:
    """Counts and bounds of the store, from the tables' logs; files are read only if their statistics are absent.

    Args:
        note: the newest one of ``messages``, which knows the last position also where its message was removed.
        count_reasons: whether to read files of dead letters for their reasons, where the log doesn't tell them.
    """
    messages = store.table("messages")
    files = complete(store, "messages", files_of(messages), "time", "global_position")
    dead_letters = complete(store, "dead_letters", files_in(store, "dead_letters"), "redriven_at")
    reasons = count_open(store, "dead_letters", dead_letters, "reason", "redriven_at", read=count_reasons)
    last = _next_position(files, note.next_global_position if note else None) - 1
    checkpoint = checkpoint_in(store.log_object("messages", LAST_CHECKPOINT))
    return TableState(
        version=messages.version(),
        messages=_sum(files, "num_records"),
        dead_letters=_sum(dead_letters, "null_count.redriven_at"),
        bytes=_sum(files, "size_bytes"),
        oldest_message_time=_time(files, "min.time", pc.min),
        newest_message_time=_time(files, "max.time", pc.max),
        last_global_position=last or None,
        files=files.num_rows,
        small_files=_small_files(files),
        versions_since_checkpoint=messages.version() - (checkpoint or 0),
        epoch=store.transaction("messages", EPOCH),
        dead_letters_by_reason=reasons,
    )


class _LastCheckpoint(BaseModel):
    version: int = Field(ge=0)


def note_in(text: str | None) -> CommitNote | None:
    """The note in a commit's user metadata; None if that is not of one of our runs."""
    try:
        note = CommitNote.model_validate_json(text) if text else None
    except ValidationError:
        return None
    return note if note is not None and _can_be(note) else None


def _can_be(note: CommitNote) -> bool:
    """Whether a note has counts that a store can reach; one with other counts is not ours."""
    counts = [*note.totals.model_dump().values(), *note.updates.model_dump().values()]
    return all(0 <= count < _COUNTS for count in (*counts, note.next_global_position or 0))


def _small_files(files: pa.Table) -> int:
    """How many files are small, in days with more than one small file."""
    if files.num_rows == 0:
        return 0
    small = files.filter(pc.field("size_bytes") < COMPACT_BYTES)
    days = small.group_by(DAY).aggregate([("size_bytes", "count")])["size_bytes_count"]
    return sum(count for count in days.to_pylist() if count > 1)


def checkpoint_in(content: bytes | None) -> int | None:
    """The version that a log's ``_last_checkpoint`` names; 0 without it; None: it names none.

    Delta readers find the checkpoint without this object.
    """
    try:
        return _LastCheckpoint.model_validate_json(content).version if content else 0
    except ValidationError:
        return None


def _sum(files: pa.Table, column: str) -> int:
    return int(pc.sum(files[column]).as_py() or 0) if column in files.column_names else 0


def _bound(files: pa.Table, column: str, of: "pc.Function") -> int | None:
    value = of(files[column]).as_py() if column in files.column_names else None
    return None if value is None else int(value)


def _time(files: pa.Table, column: str, of: "pc.Function") -> datetime | None:
    value = of(files[column]).as_py() if column in files.column_names else None
    return None if value is None else in_utc(value)
