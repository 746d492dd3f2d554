"""What the commits on ``messages`` say of themselves: the batch they end, and the totals so far.

The messages commit is a batch's commit point, so its counts can't differ from what it wrote. Every commit carries the
totals on, so that the newest one tells them however old the log is.
"""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pydantic import ValidationError

from messagestore_jobs.contract.base import ContractModel
from messagestore_jobs.contract.run_report import IngestCounts, TableState
from messagestore_jobs.store.objects import delta_uri, join
from messagestore_jobs.store.storage import current


class CommitNote(ContractModel):
    """The user metadata of one commit on ``messages``."""

    run: str
    totals: IngestCounts = IngestCounts()

    def json_text(self) -> str:
        """As it stands in the commit."""
        return self.model_dump_json(by_alias=True)


def open_table(uri: str, name: str, version: int | None = None) -> DeltaTable:
    """One table of the folder, by delta-rs."""
    return DeltaTable(delta_uri(join(uri, name)), version=version, storage_options=current().delta_options(uri))


def committed_batch(uri: str, source_id: str) -> int:
    """The last batch of a source that is in the table; 0 before the first. Delta keeps it, however old the log."""
    return open_table(uri, "messages").transaction_version(source_id) or 0


def last_note(uri: str) -> CommitNote:
    """The newest note; commits made by other hands (an OPTIMIZE, say) carry none and are passed over."""
    table = open_table(uri, "messages")
    for limit in (1, 100, None):
        for commit in table.history(limit):
            note = _note(commit.get("userMetadata"))
            if note is not None:
                return note
    return CommitNote(run="")


def _note(text: str | None) -> CommitNote | None:
    try:
        return CommitNote.model_validate_json(text) if text else None
    except ValidationError:
        return None


def table_state(uri: str) -> TableState:
    """Counts and bounds of the store, from the tables' logs alone."""
    messages = open_table(uri, "messages")
    files = pa.table(messages.get_add_actions(flatten=True))
    return TableState(
        version=messages.version(),
        messages=_sum(files, "num_records"),
        dead_letters=_sum(pa.table(open_table(uri, "dead_letters").get_add_actions(flatten=True)), "num_records"),
        bytes=_sum(files, "size_bytes"),
        oldest_message_time=_time(files, "min.time", pc.min),
        newest_message_time=_time(files, "max.time", pc.max),
        last_global_position=_bound(files, "max.global_position", pc.max),
    )


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
