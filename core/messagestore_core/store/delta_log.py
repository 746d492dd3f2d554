"""What a table's log tells: of its files, without reading any of them, and of the commits on ``messages``.

The messages commit is a batch's commit point, so its counts can't differ from what it wrote. Every commit carries the
totals on, so that the newest one tells them however old the log is.
"""

from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pydantic import BaseModel, ValidationError

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.run_report import IngestCounts, TableState, UpdateCounts
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import LARGEST_DOCUMENT

DAY = "partition.inserted_date"
"""The column that has the day of a file of ``messages``."""
EPOCH = "messagestore-epoch"
"""The transaction whose version is the newest epoch under which a table was written."""

_COUNTS = 1 << 53

COMPACT_BYTES = 96 << 20
"""A file of this size is left as it is."""


def files_of(table: DeltaTable) -> pa.Table:
    """The table's add actions, flattened: a row a file; without any file, what columns there are isn't told."""
    return pa.table(table.get_add_actions(flatten=True))


def of_day(files: pa.Table, day: date) -> pa.Table:
    """The files of one day; there is at least one file."""
    return files.filter(pc.field(DAY) == pa.scalar(day, files[DAY].type))


def end_of(day: date) -> datetime:
    """The moment after a day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def may_hold(files: pa.Table, column: str) -> bool:
    """Whether any row can have a value in a column; files that tell nothing of it may."""
    if not files.num_rows:
        return False
    if f"null_count.{column}" not in files.column_names:
        return True
    nulls = pc.fill_null(files[f"null_count.{column}"], -1)
    return bool(pc.any(pc.not_equal(nulls, files["num_records"])).as_py())


def without(files: pa.Table, column: str) -> int:
    """How many rows have no value in a column; those of a file that tells nothing of it count."""
    if not files.num_rows:
        return 0
    name = f"null_count.{column}"
    rows = files["num_records"]
    told = pc.coalesce(files[name], rows) if name in files.column_names else rows
    return int(pc.sum(told).as_py() or 0)


def may_be_before(files: pa.Table, column: str, edge: datetime) -> bool:
    """Whether any row can have a time before ``edge`` in a column; files that tell nothing of it may."""
    name = f"min.{column}"
    if name not in files.column_names:
        return bool(files.num_rows)
    least = files[name]
    if least.null_count:
        return True
    return pc.any(pc.less(least, pa.scalar(edge, least.type))).as_py() is True


class CommitNote(ContractModel):
    """The user metadata of one commit on ``messages``."""

    run: str
    totals: IngestCounts = IngestCounts()
    updates: UpdateCounts = UpdateCounts()
    epoch: int | None = None
    """Of the run's grant; see ``fence``."""
    events_since: int | None = None
    """From which global position on CloudEvents are told apart by source and id; absent: none came since they are."""

    def json_text(self) -> str:
        """As it stands in the commit."""
        return self.model_dump_json(by_alias=True)


def committed_batch(store: Store, source_id: str) -> int:
    """The last batch of a source that is in the table; 0 before the first. Delta keeps it, however old the log."""
    return store.table("messages").transaction_version(source_id) or 0


def last_note(store: Store) -> CommitNote:
    """The newest note; commits made by other hands (an OPTIMIZE, say) carry none and are passed over."""
    return note_of(store.table("messages"))


def note_of(table: DeltaTable) -> CommitNote:
    """As :func:`last_note`, of ``messages`` as it was opened."""
    for limit in (1, 100, None):
        for commit in table.history(limit):
            note = _note(commit.get("userMetadata"))
            if note is not None:
                return note
    return CommitNote(run="")


def is_own_note(text: str | None) -> bool:
    """Whether the user metadata of a commit on ``messages`` is what a run of ours writes."""
    return _note(text) is not None


def epoch_of(table: DeltaTable) -> int | None:
    """The newest epoch under which a table was written, as it was opened; None where no run has had one."""
    epoch = table.transaction_version(EPOCH)
    return None if epoch is None else int(epoch)


def table_state(store: Store) -> TableState:
    """Counts and bounds of the store, from the tables' logs alone."""
    messages = store.table("messages")
    files = files_of(messages)
    return TableState(
        version=messages.version(),
        messages=_sum(files, "num_records"),
        dead_letters=without(files_of(store.table("dead_letters")), "redriven_at"),
        bytes=_sum(files, "size_bytes"),
        oldest_message_time=_time(files, "min.time", pc.min),
        newest_message_time=_time(files, "max.time", pc.max),
        last_global_position=_bound(files, "max.global_position", pc.max),
        files=files.num_rows,
        small_files=_small_files(files),
        versions_since_checkpoint=messages.version() - _checkpoint(store),
        epoch=epoch_of(messages),
    )


class _LastCheckpoint(BaseModel):
    version: int


def _note(text: str | None) -> CommitNote | None:
    try:
        note = CommitNote.model_validate_json(text) if text else None
    except ValidationError:
        return None
    return note if note is not None and _can_be(note) else None


def _can_be(note: CommitNote) -> bool:
    """Whether a note has counts that a store can reach; one that has others is of other hands, too."""
    counts = [*note.totals.model_dump().values(), *note.updates.model_dump().values()]
    return all(0 <= count < _COUNTS for count in counts)


def _small_files(files: pa.Table) -> int:
    """Files that are not compact, of days that have more than one such."""
    if files.num_rows == 0:
        return 0
    small = files.filter(pc.field("size_bytes") < COMPACT_BYTES)
    days = small.group_by(DAY).aggregate([("size_bytes", "count")])["size_bytes_count"]
    return sum(count for count in days.to_pylist() if count > 1)


def _checkpoint(store: Store) -> int:
    """The version of the last checkpoint of ``messages``; 0 before the first."""
    content = store.objects("messages", "_delta_log").read("_last_checkpoint", LARGEST_DOCUMENT)
    try:
        return _LastCheckpoint.model_validate_json(content).version if content else 0
    except ValidationError:
        # Who reads the table finds its check point without this.
        return 0


def _sum(files: pa.Table, column: str) -> int:
    return int(pc.sum(files[column]).as_py() or 0) if column in files.column_names else 0


def _bound(files: pa.Table, column: str, of: "pc.Function") -> int | None:
    value = of(files[column]).as_py() if column in files.column_names else None
    return None if value is None else int(value)


def _time(files: pa.Table, column: str, of: "pc.Function") -> datetime | None:
    value = of(files[column]).as_py() if column in files.column_names else None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return None if value is None else value.astimezone(UTC)
