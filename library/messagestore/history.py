"""Read what has changed in the lifecycle of a message, and when."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from messagestore import sql
from messagestore.errors import StoreNotFoundError
from messagestore.versions import Versions
from messagestore_core.store.schemas import HISTORY, HISTORY_ROWS

_ORDER = ("table_version", "row")
_STEP = ("step_id", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One change of a message: of its status, its attempt, or when it is due again.

    Attributes:
        at: when the change was applied.
        attempt: the one that failed, or else the one that the message is in; from 1.
        next_retry_at: when a failed message is due again; None: no retry is left, or it has not failed.
        error: that came with the change.
        run: the run that applied it.
    """

    message_id: str
    global_position: int
    at: datetime
    attempt: int
    from_status: str
    to_status: str
    next_retry_at: datetime | None = None
    error: str | None = None
    run: str


def history_of(versions: Versions, message_id: str) -> list[HistoryRow]:
    """The rows of ``messagestore.reader.Reader.history``: of steps that are committed, of the days of its messages."""
    messages = versions.with_id(message_id, ("global_position", "inserted_date"))
    if not messages.num_rows:
        return []
    try:
        history = versions.other(HISTORY, HISTORY_ROWS)
    except StoreNotFoundError:
        return []
    days = sorted(set(messages["inserted_date"].to_pylist()))
    positions = messages["global_position"].to_pylist()
    where = (sql.of_days("inserted_date", days), sql.one_of("global_position", positions))
    names = tuple(HistoryRow.__dataclass_fields__)
    rows = history.rows(where, _ORDER, columns=(*names, *_STEP))
    last = {step_id: versions.transaction(step_id) for step_id in pc.unique(rows["step_id"]).to_pylist()}
    committed = [row for row in rows.to_pylist() if row["step"] <= last[row["step_id"]]]
    return [HistoryRow(**{name: row[name] for name in names}) for row in committed]
