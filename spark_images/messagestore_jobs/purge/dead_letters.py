"""Dead letters that are too old."""

from datetime import datetime

import pyarrow.compute as pc

from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.history import open_table


def count_dead_letters(uri: str, before: datetime) -> int:
    """How many failed before ``before``."""
    rows = open_table(uri, "dead_letters").to_pyarrow_dataset()
    return int(rows.count_rows(filter=pc.field("failed_at") < before))


def delete_dead_letters(uri: str, before: datetime) -> None:
    """Delete those that failed before ``before``, durably."""
    if count_dead_letters(uri, before) == 0:
        return
    with external_write("delete-dead-letters"):
        open_table(uri, "dead_letters").delete(f"failed_at < '{before.isoformat()}'")
