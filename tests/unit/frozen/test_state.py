"""The state that a replay stores."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.frozen.replays import ReplayState

PLACED = [7, 3, 9, 1, 8, 2, 6]
SPARKS = pa.schema([pa.field("global_position", pa.int64(), nullable=False)])
"""As Spark writes a column that can hold no null."""


@pytest.fixture
def state(tmp_path: Path) -> ReplayState:
    """A state with the positions that Spark has placed, in three files and an empty one."""
    folder = tmp_path / "placed"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for number, positions in enumerate(([], PLACED[:3], PLACED[3:4], PLACED[4:])):
        rows = pa.table([positions], schema=SPARKS)
        pq.write_table(rows, folder / f"part-0000{number}-7f.zstd.parquet")
    return ReplayState(HeldStore(f"file://{tmp_path}"), Objects(f"file://{tmp_path}", Storage()))


@pytest.mark.parametrize("first", range(len(PLACED) + 1))
def test_placed_positions_are_read_from_any_of_them_on(state: ReplayState, first: int) -> None:
    for count in range(len(PLACED) + 2 - first):
        assert state.ordered_positions(first, count).tolist() == PLACED[first : first + count]
