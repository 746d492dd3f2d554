"""A table reads the same, whatever has rewritten its files."""

from pathlib import Path
from typing import Any

import pytest

from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import TABLES
from support.readings import BY_DELTA_RS, full_store, readings


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
