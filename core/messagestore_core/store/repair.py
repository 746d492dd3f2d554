"""Repair a store whose tables do not belong together: take them as they are, and make lost ones anew.

Each table gets a commit with a note that names all tables as they are now. Nobody may write the store meanwhile.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from messagestore_core.contract.run_document import Resource
from messagestore_core.store.audit import AuditEntry, add_audit
from messagestore_core.store.delta_log import CommitNote, empty_commit, epoch_of, files_of, last_note, note_before
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import create_table, read_marker
from messagestore_core.store.foreign import metadata_of, not_ours
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.layout import INDEX
from messagestore_core.store.schemas import HISTORY, MESSAGES, REMEMBERED
from messagestore_core.store.together import Problem, named_by, problems, read_tables

RUN = "repair"
LOST = {
    "dead_letters": "the records that were set aside are lost",
    "heads": "the positions of streams that a purge took messages from are lost, and may be given twice",
    "pending_updates": "the status updates that wait for their messages are lost",
    "tombstones": "late copies of erased messages will be stored and sent again",
    "audit": "its rows are lost",
    "files": "sources are read again; messages that the store has are duplicates",
    "offsets": "topics are read again; messages that the store has are duplicates",
    REMEMBERED: "late copies of purged messages will be stored again",
    HISTORY: "the history of the messages so far is lost",
}
"""What it means to make a table anew; ``messages`` never is."""


class Step(NamedTuple):
    """What is wrong with a table, for people.

    Attributes:
        wrong: the words of the refusal.
        does: what a repair does about it; None: it can do nothing.
        instead: what to do before or in place of a repair, if it can do nothing.
    """

    wrong: str
    does: str | None
    instead: str


def steps(store: Store) -> list[Step]:
    """What is wrong with a store, and what ``repair`` would do. Nothing is written.

    Raises:
        TableRefusedError: the folder has no marker, or one of a newer format.
    """
    format_version = read_marker(store).format_version
    raised = list(_raised(store))
    if raised:
        return raised
    tables = read_tables(store, format_version)
    return [_step(problem) for problem in problems(store, tables, named_by(tables))]


def repair(store: HeldStore, at: datetime, requested_by: str) -> None:
    """Take a store's tables as they are, in a commit on each that names all. If it breaks off, repeat it.

    The caller holds the right to write, and has seen that no step is impossible.

    Raises:
        TableRefusedError: a table can't be repaired.
    """
    for name in store.existing_tables():
        _lower(store, name)
    marker = read_marker(store)
    tables = read_tables(store, marker.format_version)
    accepted = [problem.words for problem in problems(store, tables, named_by(tables))]
    for name in tables:
        if tables[name] is None:
            create_table(store, name, RUN)
    totals = last_note(store)
    messages = tables["messages"]
    if messages and messages.foreign:
        before = min(version for version, _ in messages.foreign) - 1
        totals = _totals(store, before) or totals
        _keep_positions(store, before)
    with store.step("repair-index"):
        store.objects().delete_folder(INDEX)
    owner = marker.owner
    resource = Resource(kind="MessageStream", namespace=owner.namespace, name=owner.name, requested_by=requested_by)
    version = store.table("messages").version()
    add_audit(store, AuditEntry(at, "Repair", RUN, resource, {"accepted": accepted}, version, version))
    # The last step: after it nothing is wrong any more.
    _name_all(store, tables, totals.model_copy(update={"run": RUN}))


def newest_epoch(store: Store) -> int | None:
    """The newest epoch of any table; None: no operator has written the store."""
    tables = [table for name in store.existing_tables() if (table := _opened(store, name)) is not None]
    return max((epoch for table in tables if (epoch := epoch_of(table)) is not None), default=None)


def _name_all(store: HeldStore, names: Iterable[str], note: CommitNote) -> None:
    """Commit a note that names all tables as they are, on each of them."""
    tables = {name: store.open_to_write(name) for name in names}
    for name, table in tables.items():
        properties = store.commit_properties(note if name == "messages" else None)
        properties.max_commit_retries = 0
        with store.step(f"repair-{name}"):
            empty_commit(table, name, properties)


def _step(problem: Problem) -> Step:
    if problem.kind != "missing":
        return Step(problem.words, "takes it as it is", "")
    lost = LOST.get(problem.table)
    return Step(problem.words, lost and f"makes it anew: {lost}", "take it back from a backup")


def _raised(store: Store) -> Iterator[Step]:
    """The tables whose protocol or properties are not ours, and how they become so."""
    for name in store.existing_tables():
        table = _opened(store, name)
        what = not_ours(name, metadata_of(table)) if table else None
        if table and what:
            version = _as_before(store, name, table)
            does = None if version is None else f"gives it protocol and properties of version {version} again"
            words = f"{store.path(name)} was changed by another writer: {what}"
            yield Step(words, does, "RESTORE it to an earlier version first")


def _lower(store: HeldStore, name: str) -> None:
    """Give a table protocol and properties of ours again; its files stay."""
    table = _opened(store, name)
    if table is None or not_ours(name, metadata_of(table)) is None:
        return
    version = _as_before(store, name, table)
    if version is None:
        raise TableRefusedError(f"{store.path(name)} can't be repaired as it is: RESTORE an earlier version first")
    with store.step(f"repair-protocol-{name}"):
        table.restore(version, protocol_downgrade_allowed=True)


def _as_before(store: Store, name: str, table: DeltaTable) -> int | None:
    """The newest earlier version as our runs write it that has the same files, as a RESTORE leaves them."""
    for old in _with_files_of(store, name, table):
        if not_ours(name, metadata_of(old)) is None:
            return None if _has_vectors(store, name, old.version(), table.version()) else old.version()
    return None


def _has_vectors(store: Store, name: str, since: int, until: int) -> bool:
    """Whether a file has a deletion vector; before ``since`` none had one."""
    vectors: set[str] = set()
    for version in range(since + 1, until + 1):
        actions = store.actions(name, version)
        if not actions:
            return True
        vectors.difference_update(action["remove"]["path"] for action in actions if "remove" in action)
        added = [action["add"] for action in actions if "add" in action]
        vectors.update(add["path"] for add in added if add.get("deletionVector"))
    return bool(vectors)


def _with_files_of(store: Store, name: str, table: DeltaTable) -> Iterator[DeltaTable]:
    """The earlier versions with the same files as a table, the newest first."""
    files = set(table.file_uris())
    for version in range(table.version() - 1, -1, -1):
        try:
            old = store.read(name, version)
        except DeltaError:
            return
        if set(old.file_uris()) == files:
            yield old


def _totals(store: Store, before: int) -> CommitNote | None:
    """The totals of the version that a RESTORE of ``messages`` brought back; None if it was none."""
    now = store.table("messages")
    restored = (old.version() for old in _with_files_of(store, "messages", now) if old.version() <= before)
    return next((note_before(store, version) for version in restored), None)


def _keep_positions(store: HeldStore, before: int) -> None:
    """Raise the heads over the messages that a change by somebody else removed, so that no position is given twice."""
    filesystem, root = store.objects("messages").locate("")
    now = set(files_of(store.table("messages")).to_pydict().get("path", ()))
    try:
        gone = set(files_of(store.read("messages", before)).to_pydict().get("path", ())) - now
        columns = ["stream_name", "position", "global_position"]
        schema = pa.schema([MESSAGES.field(column) for column in columns])
        paths = [f"{root}/{path}" for path in sorted(gone)]
        rows = ds.dataset(paths, schema, format="parquet", filesystem=filesystem).to_table()
    except (DeltaError, OSError):
        # A VACUUM has removed them.
        return
    if rows.num_rows:
        heads = pa.table({"stream_name": rows["stream_name"], "next_position": pc.add(rows["position"], 1)})
        raise_heads(store, heads, int(pc.max(rows["global_position"]).as_py()) + 1)


def _opened(store: Store, name: str) -> DeltaTable | None:
    try:
        return store.read(name)
    except TableNotFoundError:
        return None
