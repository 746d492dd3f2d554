"""Whether messages may be due to expire, by the table's log alone."""

from datetime import UTC, datetime

import pyarrow as pa

FIRST_OPEN = "FAILED"
"""FAILED, PROCESSING and RECEIVED sort after COMPLETED and EXPIRED, so a file's statistics show which it has."""


def may_expire(files: pa.Table, at: datetime) -> bool:
    """Whether any file may have an open message that is due to expire; ``files`` are those of ``files_of``."""
    if not {"min.expires_at", "max.status"} <= set(files.column_names):
        return False
    bounds = zip(files["min.expires_at"].to_pylist(), files["max.status"].to_pylist(), strict=True)
    return any(_moment(first) <= at and (last or FIRST_OPEN) >= FIRST_OPEN for first, last in bounds if first)


def _moment(value: "datetime | str") -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
