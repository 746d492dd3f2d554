"""The ``history`` table: what has changed in the lifecycle of messages, and when.

A step's rows are written before the commit on ``messages`` that makes its changes, so that none lacks its row. They
count once that commit is made: its transaction has the step's id and number. The transaction of the same id in
``history`` has the last step for which rows were written, by which a step that is repeated finds those of an earlier
try.
"""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from messagestore_core.store.delta_log import DAY, committed_batch, empty_commit, files_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import create_table
from messagestore_core.store.handle import Store
from messagestore_core.store.schemas import HISTORY, HISTORY_ROWS, literal


def history_table(store: Store) -> DeltaTable | None:
    """The table, only for reading; None while no message has changed."""
    try:
        return store.table(HISTORY)
    except TableNotFoundError:
        return None


def write_history(store: HeldStore, rows: pa.Table, step: tuple[str, int]) -> None:
    """Write the rows of a step, durably; they replace those of an earlier try. Those of a committed step stay.

    Args:
        rows: with the columns of the table but step_id, step and table_version.
        step: the step that the commit on ``messages`` ends.
    """
    if not _withdrawn(store, step) or not rows.num_rows:
        return
    same = {"step_id": step[0], "step": step[1], "table_version": store.version("messages")}
    full = rows
    for name, value in same.items():
        full = full.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
    table = _made(store)
    with store.step("history"):
        write_deltalake(
            table,
            full.select(HISTORY_ROWS.names).cast(HISTORY_ROWS),
            mode="append",
            commit_properties=store.commit_properties(None, Transaction(*step)),
        )


def begin_history(store: HeldStore, step: tuple[str, int]) -> bool:
    """Note that rows of a step are about to be written by Spark, without those of an earlier try.

    Returns:
        False if the step is committed, or the store keeps no history.
    """
    if not _withdrawn(store, step) or not store.keeps_history:
        return False
    table = _made(store)
    with store.step("history-begun"):
        empty_commit(table, HISTORY, store.commit_properties(None, Transaction(*step)))
    return True


def forget_days(store: HeldStore, days: Sequence[date]) -> None:
    """Remove the rows of messages of whole days, by a commit that rewrites no file."""
    gone = sorted(set(days) & days_of_history(store))
    if not gone:
        return
    listed = ", ".join(f"'{day.isoformat()}'" for day in gone)
    with store.step("history-days"):
        store.delete_rows(HISTORY, f"inserted_date IN ({listed})")


def days_of_history(store: Store) -> set[date]:
    """The days of which any message has rows, by the log."""
    table = history_table(store)
    files = files_of(table) if table else None
    return set(pc.unique(files[DAY]).to_pylist()) if files is not None and files.num_rows else set()


def _withdrawn(store: HeldStore, step: tuple[str, int]) -> bool:
    """Remove what earlier tries of a step have written, durably; False if the step is committed."""
    app_id, number = step
    if committed_batch(store, app_id) >= number:
        return False
    written = store.transaction(HISTORY, app_id) if history_table(store) else None
    if written is not None and written >= number:
        with store.step("history-withdrawn"):
            store.delete_rows(HISTORY, f"step_id = {literal(app_id)} and step >= {number}")
    return True


def _made(store: HeldStore) -> DeltaTable:
    """The table for one commit; it is made if there is none."""
    if history_table(store) is None:
        create_table(store, HISTORY, "")
    return store.open_to_write(HISTORY)
