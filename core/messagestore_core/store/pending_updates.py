"""The ``pending_updates`` table: status updates that came before their messages, in order of arrival.

They are applied in steps: first the rows of a step are marked with its number, then a commit on ``messages`` carries
that number, then the rows are deleted. A step that broke off before its commit is repeated with the same rows.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.store.delta_log import count_rows
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.scan import scan_in
from messagestore_core.store.schemas import PENDING_UPDATES, literal

STEP = "pending-updates"
"""The transaction on ``messages`` whose version is the last committed step."""
_KEY = ("source_id", "batch", "row")
_ORDER = [(name, "ascending") for name in ("received_at", *_KEY)]


def count_pending(store: Store) -> int:
    """How many updates wait, by the table's log."""
    return count_rows(store, "pending_updates")


def read_pending(store: Store) -> pa.Table:
    """All waiting updates (schema PENDING_UPDATES), in order of arrival."""
    rows = scan_in(store, "pending_updates").read_all()
    if not rows.num_rows:
        return PENDING_UPDATES.empty_table()
    return rows.select(PENDING_UPDATES.names).sort_by(_ORDER).cast(PENDING_UPDATES)


def let_wait(store: HeldStore, rows: pa.Table, source_id: str, batch: int) -> None:
    """Write a batch's updates (schema PENDING_UPDATES), durably; they replace those of an earlier try of it."""
    _overwrite(store, rows, f"source_id = {literal(source_id)} and batch = {batch}", "pending-updates")


def forget_waiting(store: HeldStore, source_id: str, batch: int) -> None:
    """Delete the updates of a batch that has not been committed, durably."""
    if count_pending(store):
        let_wait(store, PENDING_UPDATES.empty_table(), source_id, batch)


def take(store: HeldStore, rows: pa.Table, number: int) -> None:
    """Mark rows as those of a step, and clear the mark of all others."""
    marked = rows.set_column(rows.column_names.index("taken"), "taken", pa.array([number] * rows.num_rows, pa.int64()))
    _overwrite(store, _with(store, marked), None, "pending-taken")


def drop_taken(store: HeldStore, number: int) -> None:
    """Delete the rows of all steps up to this one, which has been committed."""
    with store.step("pending-dropped"):
        store.delete_rows("pending_updates", f"taken <= {number}")


def forget_pending(store: HeldStore, message_ids: Sequence[str]) -> None:
    """Delete the updates that wait for these messages, durably."""
    if not count_pending(store):
        return
    rows = read_pending(store)
    named = pc.is_in(rows["message_id"], value_set=pa.array(message_ids, pa.string()))
    if pc.any(named).as_py():
        _overwrite(store, rows.filter(pc.invert(named)), None, "erase-pending-updates")


def _with(store: Store, marked: pa.Table) -> pa.Table:
    """All waiting updates, some replaced by these."""
    rows = read_pending(store)
    own = set(_keys(marked))
    kept = rows.filter(pa.array([key not in own for key in _keys(rows)], pa.bool_()))
    unmarked = kept.set_column(kept.column_names.index("taken"), "taken", pa.nulls(kept.num_rows, pa.int64()))
    return pa.concat_tables([marked, unmarked])


def _keys(rows: pa.Table) -> list[tuple[object, ...]]:
    """The key of each row."""
    return list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))


def _overwrite(store: HeldStore, rows: pa.Table, predicate: str | None, write: str) -> None:
    with store.step(write):
        how = {"mode": "overwrite", "predicate": predicate, "schema_mode": "merge"}
        store.write_rows("pending_updates", rows.cast(PENDING_UPDATES), **how)
