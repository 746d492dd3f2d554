"""Purged ids: which messages were purged lately, so that a late copy of one counts as a duplicate.

Only the keyed hash of an id is kept, by the key of the tombstones. The table is apart from these, as each ingest reads
all tombstones, while purged ids may be as many as the messages. See ``index``, which looks them up.
"""

from datetime import date, datetime, timedelta

import pyarrow.compute as pc

from messagestore_core.clock import microseconds
from messagestore_core.store.delta_log import end_of, files_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import PARTITIONS, REMEMBERED

_DAY = f"partition.{PARTITIONS[REMEMBERED]}"


def remembered_since(store: Store, at: datetime) -> int | None:
    """The time in microseconds after which an id must have been purged to be remembered; None: none is."""
    if store.remember_purged is None:
        return None
    # Such a time may be before the first that datetime has.
    return microseconds(at) - store.remember_purged // timedelta(microseconds=1)


def first_day(store: Store) -> date | None:
    """The oldest day of which any purged id is remembered, by the log; None without any."""
    days = _days(store)
    return days[0] if days else None


def forget_purged(store: HeldStore, as_of: datetime) -> None:
    """Remove the days that are over; all of them where purged ids are not remembered any more."""
    since = remembered_since(store, as_of)
    over = [day for day in _days(store) if since is None or microseconds(end_of(day)) <= since]
    if not over:
        return
    listed = ", ".join(f"'{day.isoformat()}'" for day in over)
    with store.step("forget-purged-ids"):
        store.open_to_write(REMEMBERED).delete(
            f"{PARTITIONS[REMEMBERED]} IN ({listed})", commit_properties=store.commit_properties()
        )


def _days(store: Store) -> list[date]:
    files = files_of(store.table(REMEMBERED))
    return sorted(pc.unique(files[_DAY]).to_pylist()) if files.num_rows else []
