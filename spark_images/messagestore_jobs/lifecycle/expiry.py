"""Whether messages may be due to expire, by the statistics of the table's files."""

from datetime import datetime

import pyarrow as pa

from messagestore_core.clock import in_utc
from messagestore_core.store.delta_log import files_of
from messagestore_core.store.handle import Store
from messagestore_core.store.statistics import complete

FIRST_OPEN = "FAILED"
"""FAILED, PROCESSING and RECEIVED sort after COMPLETED and EXPIRED, so a file's statistics show which it has."""


def is_any_due(store: Store, at: datetime) -> bool:
    """Whether any file of a store may have an open message that is due to expire."""
    return may_expire(complete(store, "messages", files_of(store.table("messages")), "expires_at", "status"), at)


def may_expire(files: pa.Table, at: datetime) -> bool:
    """Like :func:`is_any_due`, for files whose statistics of expires_at and status are complete."""
    if not files.num_rows:
        return False
    bounds = zip(files["min.expires_at"].to_pylist(), files["max.status"].to_pylist(), strict=True)
    return any(in_utc(first) <= at and (last or FIRST_OPEN) >= FIRST_OPEN for first, last in bounds if first)
