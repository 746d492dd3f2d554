"""A table reads the same, whatever has rewritten its files."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from messagestore_core.bounds import FIRST_MOMENT, LAST_MOMENT
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan
from messagestore_core.store.schemas import TABLES
from support.readings import BY_DELTA_RS, full_store, readings
from support.stores import START, make_store, message


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    return readings(full_store(tmp_path_factory.mktemp("before") / "store"))


@pytest.mark.parametrize("by", BY_DELTA_RS)
def test_tables_that_delta_rs_has_rewritten_read_as_before(
    tmp_path: Path, before: dict[tuple[str, str], Any], by: str
) -> None:
    store = full_store(tmp_path / "store", others=True)
    for name in TABLES:
        BY_DELTA_RS[by](Store(store.uri).opened(name), name)
    assert readings(Store(store.uri)) == before


def test_rows_of_the_first_and_the_last_time_are_found(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1, time=FIRST_MOMENT), message(2, time=LAST_MOMENT)]).uri)
    for where, found in ((pc.field("time") >= LAST_MOMENT, [2]), (pc.field("time") < START, [1])):
        rows = scan(store.table("messages"), ["global_position"], where).read_all()
        assert rows["global_position"].to_pylist() == found
