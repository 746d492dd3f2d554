"""Heads: the next position of each stream, and of the table, kept over purges.

Messages tell them too; the larger counts. A purge raises them before it removes anything.
"""

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.fence import commit_properties, open_to_write
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.objects import join
from messagestore_jobs.store.schemas import HEADS

_LAST = 1 << 60
"""Past any position; to count on from here would soon leave 64 bits."""


def read_heads(uri: str) -> tuple[dict[str, int], int]:
    """The next position by stream, and the table's next global position; 0 where none is kept.

    Raises:
        TableRefusedError: one is no position that was ever reached.
    """
    rows = open_table(uri, "heads").to_pyarrow_table()
    for name in ("next_position", "next_global_position"):
        bounds = pc.min_max(rows[name])
        if bounds["min"].is_valid and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < _LAST:
            raise TableRefusedError(f"{join(uri, 'heads')} has a {name} that nothing has reached: restore it")
    streams = rows.filter(pc.is_valid(rows["stream_name"]))
    heads = dict(zip(streams["stream_name"].to_pylist(), streams["next_position"].to_pylist(), strict=True))
    return heads, pc.max(rows["next_global_position"]).as_py() or 0


def raise_heads(uri: str, streams: pa.Table, next_global_position: int) -> None:
    """Raise heads to at least these, durably; none is ever lowered.

    Args:
        uri: the table folder.
        streams: columns stream_name, next_position.
        next_global_position: of the table.
    """
    heads, kept_global = read_heads(uri)
    for name, position in zip(streams["stream_name"].to_pylist(), streams["next_position"].to_pylist(), strict=True):
        heads[name] = max(position, heads.get(name, 0))
    rows = pa.table(
        [
            pa.array([*heads, None], pa.string()),
            pa.array([*heads.values(), None], pa.int64()),
            pa.array([None] * len(heads) + [max(next_global_position, kept_global)], pa.int64()),
        ],
        schema=HEADS,
    )
    with external_write("heads"):
        write_deltalake(open_to_write(uri, "heads"), rows, mode="overwrite", commit_properties=commit_properties(uri))
