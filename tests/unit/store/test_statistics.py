"""Statistics of files that another writer has left out: they are read from these files, and from no others."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from messagestore_core.store.delta_log import files_of, next_global_position
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import TOMBSTONE_KEY
from messagestore_core.store.objects import local_path
from messagestore_core.store.schemas import TABLES
from messagestore_core.store.statistics import complete
from messagestore_core.store.tombstones import open_erased
from messagestore_jobs.index.changes import all_of, changes_between
from support.readings import BY_DELTA_RS, TOLD, full_store, readings, tell
from support.stores import START, add_messages, make_store, message

COLUMNS = ("global_position", "time", "expires_at", "status", "sequence_id")
every_kind = pytest.mark.parametrize("told", TOLD.values(), ids=list(TOLD))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    full_store(folder / "store")
    return folder / "store"


@pytest.fixture(scope="module")
def before(made: Path) -> dict[tuple[str, str], Any]:
    return readings(Store(f"file://{made}"))


@every_kind
@pytest.mark.parametrize("files", [1, None], ids=["of the first file", "of all files"])
def test_a_store_reads_the_same_without_statistics(
    tmp_path: Path,
    made: Path,
    before: dict[tuple[str, str], Any],
    told: Callable[[dict[str, Any]], object],
    files: int | None,
) -> None:
    store = Store(f"file://{shutil.copytree(made, tmp_path / 'store')}")
    for name in TABLES:
        tell(store, name, told, files)
    assert readings(Store(store.uri)) == before


@pytest.mark.parametrize("told", ["fewer columns", "no nulls", "nothing"])
def test_a_store_without_statistics_can_be_changed(
    tmp_path: Path, before: dict[tuple[str, str], Any], told: str
) -> None:
    store = full_store(tmp_path / "store", others=True)
    for name, by in zip(TABLES, 2 * list(BY_DELTA_RS.values()), strict=True):
        tell(store, name, TOLD[told])
        by(Store(store.uri).opened(name), name)
    assert readings(Store(store.uri)) == before


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three files of one message each; the first expires, the last is of a sequence."""
    rows = [message(1, expires_at=START + timedelta(days=1)), message(2), message(3, sequence_id="s")]
    return Store(make_store(tmp_path / "store", *([row] for row in rows)).uri)


def figures(store: Store) -> list[dict[str, Any]]:
    files = complete(store, "messages", files_of(store.table("messages")), *COLUMNS).sort_by("min.global_position")
    kinds = [f"{kind}.{column}" for column in COLUMNS for kind in ("min", "max", "null_count")]
    return files.select(["num_records", *kinds]).to_pylist()


@every_kind
def test_what_is_read_is_what_the_statistics_told(store: Store, told: Callable[[dict[str, Any]], object]) -> None:
    before = figures(Store(store.uri))
    tell(store, "messages", told, 2)
    assert figures(Store(store.uri)) == before


def test_only_files_without_statistics_are_read_and_each_once(store: Store) -> None:
    before = figures(store)
    tell(store, "messages", TOLD["fewer columns"], 1)
    first, *others = sorted(Path(local_path(store.path("messages"))).glob("*/*.parquet"), key=positions_of)
    for file in others:
        file.unlink()
    again = Store(store.uri)
    assert figures(again) == before
    first.unlink()
    assert figures(again) == before
    with pytest.raises(FileNotFoundError):
        figures(Store(store.uri))


def positions_of(file: Path) -> list[int]:
    return pq.ParquetFile(file).read(["global_position"])["global_position"].to_pylist()


def test_texts_that_a_merge_has_written_are_read(store: Store) -> None:
    BY_DELTA_RS["update"](store.opened("messages"), "messages")
    before = figures(Store(store.uri))
    tell(store, "messages", TOLD["nothing"])
    assert figures(Store(store.uri)) == before


def test_a_file_without_a_column_has_no_value_in_it(store: Store) -> None:
    before = figures(store)
    tell(store, "messages", TOLD["nothing"])
    for file in Path(local_path(store.path("messages"))).glob("*/*.parquet"):
        rows = pq.ParquetFile(file).read()
        if rows["expires_at"].null_count:
            pq.write_table(rows.drop_columns(["expires_at"]), file)
    assert figures(Store(store.uri)) == before


def test_a_table_without_files_has_no_statistics(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", []).uri)
    assert complete(store, "messages", files_of(store.table("messages")), *COLUMNS).num_rows == 0
    assert complete(store, "heads", pa.table({}), "next_position").num_rows == 0


def test_the_next_position_is_the_noted_one_where_statistics_are_gone(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1)], [message(2)]).uri)
    tell(store, "messages", TOLD["nothing"])
    assert next_global_position(Store(store.uri)) == 3
    add_messages(store.uri, [message(7)], next_global_position=8)
    Store(store.uri).opened("messages").delete("global_position = 7")
    assert next_global_position(Store(store.uri)) == 8


@pytest.mark.parametrize("told", ["nothing", "no number of rows"])
def test_without_statistics_the_size_of_files_says_about_how_many_rows_they_have(store: Store, told: str) -> None:
    before = store.table("messages").version()
    tell(store, "messages", TOLD[told])
    every = all_of(Store(store.uri).table("messages"))
    since = changes_between(store, "messages", 0, before)
    assert since is not None
    assert [(one.files, 3 <= one.rows < 10_000) for one in (every, since)] == [(3, True), (3, True)]


def test_a_key_that_is_gone_is_missed_where_nothing_tells_of_tombstones(tmp_path: Path) -> None:
    store = full_store(tmp_path / "store")
    tell(store, "tombstones", TOLD["nothing"])
    store.objects().delete(TOMBSTONE_KEY)
    with pytest.raises(TableRefusedError, match="without it nobody can tell"):
        open_erased(Store(store.uri))
