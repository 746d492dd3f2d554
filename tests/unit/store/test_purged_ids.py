"""The table of purged ids: which days of it are over, and what can't be a purged id."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from messagestore_core.clock import microseconds
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.store.claim import open_epoch
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.schemas import PURGED_IDS, REMEMBERED, TABLES
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import first_day, forget_purged, made_key, remembered_since, tombstone_key
from messagestore_jobs.index.read import read_purged
from support.stores import add_rows

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def opened(folder: Path, remember: timedelta | None = 30 * DAY, epoch: int | None = None) -> HeldStore:
    owner = Owner(namespace="default", name="orders")
    table = Table(uri=f"file://{folder}", owner=owner, remember_purged=remember)
    open_folder(HeldStore.of(table, Storage()))
    return HeldStore.of(table.model_copy(update={"epoch": epoch}), Storage())


def add(store: HeldStore, *times: datetime, key: bytes = bytes(16)) -> None:
    rows = pa.table([[key] * len(times), times, [at.date() for at in times]], schema=PURGED_IDS)
    add_rows(store, REMEMBERED, rows)


def kept(store: HeldStore) -> list[datetime]:
    found: list[datetime] = store.table(REMEMBERED).to_pyarrow_table()["purged_at"].to_pylist()
    return sorted(found)


def test_a_store_has_the_table_once_its_ids_are_to_be_remembered(tmp_path: Path) -> None:
    assert opened(tmp_path, None).existing_tables() == tuple(TABLES)
    assert opened(tmp_path).existing_tables() == (*TABLES, REMEMBERED)
    # It stays for its last rows.
    assert opened(tmp_path, None).existing_tables() == (*TABLES, REMEMBERED)


def test_the_table_of_purged_ids_is_claimed_by_an_epoch(tmp_path: Path) -> None:
    store = opened(tmp_path, epoch=3)
    open_epoch(store, "run")
    assert store.transaction(REMEMBERED, "messagestore-epoch") == 3


@pytest.mark.parametrize(
    ("after", "days"), [(30 * DAY, 2), (30 * DAY + DAY / 2, 1), (31 * DAY, 1), (32 * DAY, 0), (10_000 * DAY, 0)]
)
def test_a_day_is_forgotten_once_all_of_it_is_over(tmp_path: Path, after: timedelta, days: int) -> None:
    store, times = opened(tmp_path), [NOON, NOON + DAY / 4, NOON + DAY]
    add(store, *times)
    forget_purged(store, NOON + after)
    left = [at for at in times if days and at.date() >= date(2026, 1, 7 - days)]
    assert kept(store) == left
    assert first_day(store) == (left[0].date() if left else None)
    version = store.table(REMEMBERED).version()
    forget_purged(store, NOON + after)
    assert store.table(REMEMBERED).version() == version


def test_all_days_are_forgotten_where_ids_are_not_remembered_any_more(tmp_path: Path) -> None:
    add(opened(tmp_path), NOON, NOON + DAY)
    store = opened(tmp_path, None)
    forget_purged(store, NOON)
    assert (kept(store), remembered_since(store, NOON)) == ([], None)


def test_ids_may_be_remembered_for_any_length_of_time(tmp_path: Path) -> None:
    since = remembered_since(opened(tmp_path, 999_999 * DAY), NOON)
    assert since == microseconds(NOON) - 999_999 * 86_400_000_000


def test_without_its_key_a_store_that_remembers_ids_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert tombstone_key(store) is None
    made_key(store)
    add(store, NOON)
    store.objects().delete("_tombstone_key")
    with pytest.raises(TableRefusedError, match="which messages were purged: they could come back"):
        tombstone_key(store)


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(32)])
def test_a_key_that_is_no_hash_is_refused(tmp_path: Path, key: bytes) -> None:
    store = opened(tmp_path)
    add(store, NOON, key=key)
    with pytest.raises(TableRefusedError, match="no keyed hash"):
        read_purged(store, _paths(store))


def _paths(store: HeldStore) -> list[str]:
    paths: list[str] = pa.table(store.table(REMEMBERED).get_add_actions())["path"].to_pylist()
    return paths
