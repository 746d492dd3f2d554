"""Heads: the next position of each stream, and of the table, kept over purges.

Messages tell them too; the larger counts. A purge raises them before it removes anything. Of a stream that only erased
messages had a keyed hash of its name is kept, as the name may be personal.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.external import external_write
from messagestore_core.store.fence import commit_properties, open_to_write
from messagestore_core.store.handle import Store
from messagestore_core.store.keyed import stream_key
from messagestore_core.store.objects import join
from messagestore_core.store.schemas import HEADS
from messagestore_core.store.tombstones import tombstone_key

_LAST = 1 << 60
"""Past any position; to count on from here would soon leave 64 bits."""


@dataclass
class Heads:
    """The next positions as they are kept; 0 where none is.

    Attributes:
        by_name: of streams.
        by_key: of streams that only erased messages had.
        next_global: of the table.
        key: hashes their names.
    """

    by_name: dict[str, int] = field(default_factory=dict)
    by_key: dict[str, int] = field(default_factory=dict)
    next_global: int = 0
    key: bytes = b""

    def next_position(self, stream: str) -> int:
        """Of a stream."""
        known = self.by_name.get(stream, 0)
        return max(known, self.by_key.get(stream_key(self.key, stream), 0)) if self.by_key else known

    def hides(self, stream: str) -> bool:
        """Whether only a hash of its name is kept."""
        return bool(self.by_key) and stream_key(self.key, stream) in self.by_key

    def raise_to(self, stream: str, position: int) -> None:
        """Raise one to at least this, and keep it by its name."""
        hidden = self.by_key.pop(stream_key(self.key, stream), 0) if self.by_key else 0
        self.by_name[stream] = max(position, hidden, self.by_name.get(stream, 0))

    def forget(self, stream: str) -> None:
        """Keep one by the hash of its name alone."""
        self.by_key[stream_key(self.key, stream)] = self.next_position(stream)
        self.by_name.pop(stream, None)


def read_heads(store: Store) -> Heads:
    """All that are kept.

    Raises:
        TableRefusedError: one is no position that was ever reached.
    """
    rows = store.table("heads").to_pyarrow_table()
    _refuse_unreached(store.uri, rows)
    return _heads(store, rows)


def read_hidden_heads(store: Store) -> Heads:
    """Those of the table, and of streams whose names are not kept.

    Raises:
        TableRefusedError: as :func:`read_heads`.
    """
    table = store.table("heads").to_pyarrow_dataset()
    rows = table.to_table(filter=pc.field("stream_name").is_null())
    _refuse_unreached(store.uri, rows)
    return _heads(store, rows)


def read_named_heads(store: Store) -> pa.Table:
    """Those of streams whose names are kept: columns stream_name, next_position.

    Raises:
        TableRefusedError: as :func:`read_heads`.
    """
    table = store.table("heads").to_pyarrow_dataset()
    rows = table.to_table(["stream_name", "next_position"], filter=pc.field("stream_name").is_valid())
    _refuse_unreached(store.uri, rows)
    return rows


def _refuse_unreached(uri: str, rows: pa.Table) -> None:
    for name in {"next_position", "next_global_position"} & set(rows.column_names):
        bounds = pc.min_max(rows[name])
        if bounds["min"].is_valid and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < _LAST:
            raise TableRefusedError(f"{join(uri, 'heads')} has a {name} that nothing has reached: restore it")


def _heads(store: Store, rows: pa.Table) -> Heads:
    by_key = _by(rows, "stream_key") if "stream_key" in rows.column_names else {}
    key = tombstone_key(store) or b"" if by_key else b""
    return Heads(_by(rows, "stream_name"), by_key, pc.max(rows["next_global_position"]).as_py() or 0, key)


def _by(rows: pa.Table, name: str) -> dict[str, int]:
    found = rows.filter(pc.is_valid(rows[name]))
    return dict(zip(found[name].to_pylist(), found["next_position"].to_pylist(), strict=True))


def raise_heads(store: Store, streams: pa.Table, next_global_position: int, forget: Collection[str] = ()) -> None:
    """Raise heads to at least these, durably; none is ever lowered.

    Args:
        store: whose.
        streams: columns stream_name, next_position.
        next_global_position: of the table.
        forget: streams whose names are not to be kept; there are tombstones.
    """
    heads = read_heads(store)
    if forget:
        heads.key = tombstone_key(store) or b""
    for name, position in zip(streams["stream_name"].to_pylist(), streams["next_position"].to_pylist(), strict=True):
        heads.raise_to(name, position)
    for name in forget:
        heads.forget(name)
    named, keyed = heads.by_name, heads.by_key
    last = max(next_global_position, heads.next_global)
    rows = pa.table(
        [
            pa.array([*named, *[None] * len(keyed), None], pa.string()),
            pa.array([*named.values(), *keyed.values(), None], pa.int64()),
            pa.array([*[None] * (len(named) + len(keyed)), last], pa.int64()),
            pa.array([*[None] * len(named), *keyed, None], pa.string()),
        ],
        schema=HEADS,
    )
    with external_write("heads"):
        write_deltalake(
            open_to_write(store, "heads"),
            rows,
            mode="overwrite",
            schema_mode="merge",
            commit_properties=commit_properties(store),
        )
