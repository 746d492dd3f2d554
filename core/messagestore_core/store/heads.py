"""Heads: the next position of each stream, and the next global position, kept over purges.

Messages have positions too; the larger counts. A purge raises heads before it removes anything. If a stream had only
erased messages, a keyed hash replaces its name, as the name may be personal data.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from messagestore_core.store.delta_log import files_of
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.keyed import stream_key
from messagestore_core.store.objects import join
from messagestore_core.store.scan import scan_files, scan_in
from messagestore_core.store.schemas import HEADS
from messagestore_core.store.tombstones import tombstone_key

_LAST = 1 << 60
"""Larger than any position. Counting on from here would soon exceed 64 bits."""
_BATCH_ROWS = 1 << 20
"""Heads that are read at once. Each batch is compared with all heads that are raised."""


@dataclass
class HiddenHeads:
    """The next positions that are kept without a stream's name; 0 where there is none.

    Attributes:
        by_key: those of streams that had only erased messages, by the hash of their names.
    """

    by_key: dict[str, int] = field(default_factory=dict)
    next_global: int = 0
    key: bytes = b""

    def next_position(self, stream: str) -> int:
        """The next position of a stream."""
        return self.by_key.get(stream_key(self.key, stream), 0) if self.by_key else 0

    def hides(self, stream: str) -> bool:
        """Whether only a hash of a stream's name is kept."""
        return bool(self.by_key) and stream_key(self.key, stream) in self.by_key

    def show(self, stream: str) -> int:
        """Forget the hash of a stream, whose name is kept from now on; returns its next position."""
        return self.by_key.pop(stream_key(self.key, stream), 0) if self.by_key else 0

    def hide(self, stream: str, position: int) -> None:
        """Keep a stream's next position only by the hash of its name; it is never lowered."""
        self.by_key[stream_key(self.key, stream)] = max(position, self.next_position(stream))


def read_hidden_heads(store: Store) -> HiddenHeads:
    """The next global position, and the heads of streams whose names are not kept.

    Raises:
        TableRefusedError: one is a position that cannot have been reached.
    """
    rows = scan_in(store, "heads", where=pc.field("stream_name").is_null()).read_all()
    _refuse_unreached(store.uri, rows)
    by_key = _by_key(rows) if "stream_key" in rows.column_names else {}
    key = tombstone_key(store) or b"" if by_key else b""
    return HiddenHeads(by_key, pc.max(rows["next_global_position"]).as_py() or 0, key)


def read_named_heads(store: Store) -> Iterator[pa.RecordBatch]:
    """The heads of streams whose names are kept: columns stream_name, next_position.

    Raises:
        TableRefusedError: as in ``read_hidden_heads``.
    """
    # Arrow reads the files, as delta-rs cannot read while it writes these rows back.
    filesystem, root = store.objects("heads").locate("")
    paths = [f"{root}/{path}" for path in files_of(store.table("heads"))["path"].to_pylist()]
    rows = ds.dataset(paths, HEADS, format="parquet", filesystem=filesystem)
    named = pc.field("stream_name").is_valid()
    for batch in scan_files(rows, ["stream_name", "next_position"], named, batch_size=_BATCH_ROWS):
        _refuse_unreached(store.uri, batch)
        yield batch


def raise_heads(store: HeldStore, streams: pa.Table, next_global_position: int, forget: Collection[str] = ()) -> None:
    """Raise heads to at least these positions, durably; none is lowered.

    Other heads are copied batch by batch: memory holds only those that are raised.

    Args:
        streams: columns stream_name, next_position; a stream may come more than once.
        forget: streams whose names are not to be kept; there are tombstones.

    Raises:
        TableRefusedError: as in ``read_hidden_heads``.
    """
    hidden = read_hidden_heads(store)
    hidden.next_global = max(next_global_position, hidden.next_global)
    if forget:
        hidden.key = tombstone_key(store) or b""
    refused = list[Exception]()

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            yield from raised_rows(read_named_heads(store), streams, hidden, forget)
        except Exception as error:
            refused.append(error)
            raise

    try:
        with store.step("heads"):
            reader = pa.RecordBatchReader.from_batches(HEADS, rows())
            store.write_rows("heads", reader, mode="overwrite", schema_mode="merge")
    except Exception:
        # The writer tells an error of the rows as one of Arrow's.
        if refused:
            raise refused[0] from None
        raise


def raised_rows(
    known: Iterable[pa.RecordBatch], streams: pa.Table, hidden: HiddenHeads, forget: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """All rows to write: known heads, raised; new heads; then those without a name.

    Args:
        known: as ``read_named_heads`` returns them.
        streams: as for ``raise_heads``.
        hidden: the heads without a name; changed in place.
        forget: as for ``raise_heads``.
    """
    raised = _highest(streams, hidden)
    names, is_known = raised["stream_name"].combine_chunks(), np.zeros(raised.num_rows, dtype=np.bool_)
    for batch in known:
        at = pc.index_in(batch["stream_name"], names)
        is_known[at.drop_null().to_numpy()] = True
        higher = pc.max_element_wise(batch["next_position"], pc.take(raised["next_position"], at))
        yield from _kept(pa.table({"stream_name": batch["stream_name"], "next_position": higher}), hidden, forget)
    yield from _kept(raised.filter(pa.array(~is_known)), hidden, forget)
    for name in forget:
        hidden.hide(name, 0)
    keys, positions = list(hidden.by_key), list(hidden.by_key.values())
    rest = {"stream_key": [*keys, None], "next_position": [*positions, None]}
    yield from _as_heads(pa.table(rest | {"next_global_position": [*[None] * len(keys), hidden.next_global]}))


def _highest(streams: pa.Table, hidden: HiddenHeads) -> pa.Table:
    """The highest position of each stream; a stream that was hidden is hidden no more."""
    highest = streams.group_by("stream_name").aggregate([("next_position", "max")])
    names, positions = highest["stream_name"], highest["next_position_max"]
    if hidden.by_key:
        positions = pc.max_element_wise(positions, pa.array(map(hidden.show, names.to_pylist()), pa.int64()))
    return pa.table({"stream_name": names, "next_position": positions})


def _kept(rows: pa.Table, hidden: HiddenHeads, forget: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The rows, without those of streams to forget, which are hidden."""
    if forget:
        leaving = pc.is_in(rows["stream_name"], pa.array(forget, pa.string()))
        for row in rows.filter(leaving).to_pylist():
            hidden.hide(row["stream_name"], row["next_position"])
        rows = rows.filter(pc.invert(leaving))
    yield from _as_heads(rows)


def _as_heads(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows with all columns of the table; missing ones are null."""
    known = set(rows.column_names)
    columns = [rows[f.name].cast(f.type) if f.name in known else pa.nulls(len(rows), f.type) for f in HEADS]
    yield from pa.Table.from_arrays(columns, schema=HEADS).to_batches()


def _refuse_unreached(uri: str, rows: pa.Table | pa.RecordBatch) -> None:
    for name in {"next_position", "next_global_position"} & set(rows.schema.names):
        bounds = pc.min_max(rows[name])
        if bounds["min"].is_valid and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < _LAST:
            raise TableRefusedError(f"{join(uri, 'heads')} has a {name} that cannot have been reached: restore it")


def _by_key(rows: pa.Table) -> dict[str, int]:
    hidden = rows.filter(pc.is_valid(rows["stream_key"]))
    return dict(zip(hidden["stream_key"].to_pylist(), hidden["next_position"].to_pylist(), strict=True))
