"""The fence around a store: of two runs with a grant for it, only the one with the newer epoch can write.

A run begins by committing its epoch to ``messages``, as the version of transaction ``messagestore-epoch``. Unless the
run before has ended, and so writes no more, it does so to every other table too. Each later commit fails if a newer
epoch was committed before it. For delta-rs that is a conflict: each of our commits writes that
transaction, so none succeeds if another commit wrote it since the table was opened. For Spark on object storage the log
store checks the committed epoch before it creates the next version (``ConditionalLogStore.java``).

Delta can't refuse writes that are no commits (objects, markers, plans). Before such a write the run checks the table's
epoch, at most once a second.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from deltalake.table import TableMerger
from typing_extensions import override

from messagestore_core.store.delta_log import EPOCH, CommitNote, epoch_of, note_at
from messagestore_core.store.ended import Ended, left_empty, mark, read_ended
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.foreign import refuse_foreign
from messagestore_core.store.handle import OpenTable
from messagestore_core.store.layout import LAST_RUN
from messagestore_core.store.log_copy import CopiedTable, CopyingStore
from messagestore_core.store.notes import TablesNote
from messagestore_core.store.objects import write_document
from messagestore_core.store.schemas import checkpoint_interval

Observer = Callable[[str, str], None]

_log = logging.getLogger(__name__)
_observers: list[Observer] = []
_LOOK_AGAIN_SECONDS = 1.0


class FencedError(RunFailedError):
    """A newer run has the right to write."""

    def __init__(self, message: str) -> None:
        super().__init__("Fenced", message)


class HeldStore(CopyingStore):
    """A store that a run may write to: who writes to it, or for it to other folders, takes this type.

    Each write is a ``step``. With an epoch a step is fenced. Without one it is not: a local run has a lock of its
    machine, and replays out of a store run beside its other runs.

    Attributes:
        ended: what the run before said at its end; None: nothing, or the store is not held.
        follows_end: whether no other run has come since that end, which may have broken off.
        appended_bytes: of files of messages that this process wrote, rather than Spark.
    """

    ended: Ended | None = None
    follows_end = False
    appended_bytes = 0
    epoch_is_open = False
    is_held = False
    _looked_at = -_LOOK_AGAIN_SECONDS

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Wrap a write that outlives the process, such as a commit, an object or a marker.

        Raises:
            FencedError: the store was written under a newer epoch.
            RuntimeError: the store has an epoch that was not claimed.
        """
        if self.epoch is not None:
            if not self.epoch_is_open:
                raise RuntimeError(f"{name}: epoch {self.epoch} of {self.uri} was not claimed")
            if time.monotonic() - self._looked_at >= _LOOK_AGAIN_SECONDS:
                self.refuse_older_than(self.newest_epoch())
                self._looked_at = time.monotonic()
        with observed(name):
            yield

    def trust_last_run(self) -> None:
        """Leave the tables unopened that the run before left without rows.

        The claim finds whether another run came since; then every table is opened.
        """
        ended = read_ended(self) if self.epoch is not None else None
        if ended is not None and ended.epoch is not None:
            self.known.left_empty(ended.tables, left_empty(self, ended))
            self.ended = ended

    @override
    def is_empty(self, name: str) -> bool:
        return self.is_held and name in self.known.unopened

    def open_to_write(self, name: str) -> DeltaTable:
        """One table as it is now, for one commit that carries ``commit_properties``.

        While the store is held it is the one that ``table`` returns, which the commit advances.

        Raises:
            FencedError: it was written under a newer epoch.
        """
        table = self._open_to_commit(name)
        if isinstance(table, CopiedTable):
            table = self.without_copy(name, table.version())
        self.known.writing(name, table)
        return table

    def commit(self, name: str, write: Callable[[DeltaTable], None]) -> DeltaTable:
        """Make one commit that carries ``commit_properties`` on a table as it is now.

        Args:
            write: makes the commit; called again where the first try made none.

        Raises:
            FencedError: as in ``open_to_write``.
        """
        table = self._open_to_commit(name)
        if isinstance(table, CopiedTable):
            version, was_looked_at = table.version(), self.known.is_looked_at(name)
            self.known.beginning(name)
            if self.commit_by_copy(name, table, write):
                self.known.committed(name, version + 1)
                if was_looked_at:
                    self.known.looked_at(name)
                return table
            table = self.without_copy(name, version)
        self.known.writing(name, table)
        write(table)
        return table

    def _open_to_commit(self, name: str) -> DeltaTable:
        # A commit by a copy meets whatever came before it.
        if not isinstance(self.last_opened(name), CopiedTable):
            self.known.look_again(name)
        table = self.table(name) if self.is_held else self.opened(name)
        self.refuse_older_than(self.transaction(name, EPOCH) if self.is_held else epoch_of(table))
        return table

    def commit_properties(self, note: CommitNote | None = None, *also: Transaction) -> CommitProperties:
        """The properties of a commit by delta-rs: a note, and the epoch, so that the commit fails after a newer one.

        Args:
            also: further transactions; the commit fails after another one with one of them, too.
        """
        epoch = [Transaction(EPOCH, self.epoch)] if self.epoch is not None else []
        return CommitProperties(
            custom_metadata={"userMetadata": self.note_text(note)}, app_transactions=[*epoch, *also] or None
        )

    def write_rows(self, name: str, rows: pa.Table | pa.RecordBatchReader, **how: Any) -> None:
        """Add rows to a table, or replace what it has, as ``how`` says; a ``step``, like the next three."""

        def write(table: DeltaTable) -> None:
            write_deltalake(table, rows, commit_properties=self.commit_properties(), **{"mode": "append", **how})

        if isinstance(rows, pa.Table):
            self.commit(name, write)
        else:
            # They can be read once.
            write(self.open_to_write(name))

    def update_rows(self, name: str, values: dict[str, str], where: str) -> None:
        """Change the rows that meet a condition; that and the values are SQL."""
        self.open_to_write(name).update(values, predicate=where, commit_properties=self.commit_properties())

    def delete_rows(self, name: str, where: str | None = None) -> None:
        """Delete the rows that meet a condition, or all."""
        self.open_to_write(name).delete(where, commit_properties=self.commit_properties())

    def merge_rows(self, name: str, rows: pa.Table, same: str) -> TableMerger:
        """Merge rows into a table; in SQL ``s`` is a given row, and ``t`` one that the table has."""
        return self.open_to_write(name).merge(rows, same, "s", "t", commit_properties=self.commit_properties())

    def carrying_on(self, name: str, table: DeltaTable, run: str) -> CommitProperties:
        """The properties of a commit by delta-rs that changes no row; on ``messages`` it repeats the totals."""
        noted = note_at(self, table).model_copy(update={"run": run}) if name == "messages" else None
        return self.commit_properties(noted)

    def note_text(self, note: CommitNote | None = None) -> str:
        """The user metadata of a commit: a note of ``messages``, or that of any other table."""
        said = TablesNote() if note is None else note
        return said.model_copy(update={"epoch": self.epoch, "tables": self.known.all()}).json_text()

    @override
    def _current(self, name: str) -> OpenTable:
        """Without a look for others' commits while the store is held: only the run's own are awaited.

        The fence looks for a newer run, and a commit finds what came before it.
        """
        if self.is_held and self.known.is_looked_at(name):
            current = self._tables[name]
            if current.table.version() != current.version:
                current = self._tables[name] = self._as_written(name, current)
            return current
        current = super()._current(name)
        self.known.looked_at(name)
        return current

    def _as_written(self, name: str, before: OpenTable) -> OpenTable:
        """A table after a commit by its own object, which also writes the checkpoint that is due then."""
        table = before.table
        interval = checkpoint_interval(name)
        is_due = table.version() % interval in (0, interval - 1)
        return OpenTable(table, table.version(), super()._check_point(name) if is_due else before.check_point)

    @override
    def _check_point(self, name: str) -> bytes | None:
        """Without a look after the run's own commits: no other run takes entries from the log meanwhile."""
        entry = self._tables.get(name)
        if entry is not None and self.is_held and self.known.awaits_own(name):
            return entry.check_point
        return super()._check_point(name)

    @override
    def _advanced(self, name: str, table: DeltaTable) -> DeltaTable:
        """The same table, of which only the new commits are read, while the store is held.

        A commit that was begun on it must not pass what it was begun before, so that it keeps the table as it was.
        """
        if not self.is_held or self.known.is_begun(name):
            return super()._advanced(name, table)
        table.update_incremental()
        refuse_foreign(self.uri, name, table)
        self._follow(name, table)
        return table

    def end(self, said: Ended) -> None:
        """Say at a run's end what it leaves, with its epoch and the versions of the tables; the run's last write.

        Raises:
            FencedError: the store was written under a newer epoch.
        """
        # The newest commit is then of this epoch, so that another's claim has a later version than is said here.
        self.refuse_older_than(self.newest_epoch())
        said = said.model_copy(update={"epoch": self.epoch, "tables": self.known.all(), "empty": self._empty()})
        with self.step("ended"):
            write_document(self.objects(), LAST_RUN, said)

    def _empty(self) -> dict[str, str]:
        """The tables without rows, with the marks of their last commits."""
        marks = dict(self.known.unopened)
        for name, at in self.known.all().items() if self.epoch is not None else ():
            table = self.last_opened(name)
            if name != "messages" and table and table.version() == at.version and not table.get_add_actions().num_rows:
                noted = mark(self, name, at.version)
                marks |= {name: noted} if noted else {}
        return marks

    def newest_epoch(self) -> int | None:
        """The newest epoch of the store as it is now; None without an epoch or without a store."""
        self.known.look_again("messages")
        try:
            return self.transaction("messages", EPOCH)
        except TableNotFoundError:
            return None

    def refuse_older_than(self, newest: int | None) -> None:
        """Raise FencedError if the store has a newer epoch than this run."""
        if newest is not None and self.epoch is not None and newest > self.epoch:
            raise FencedError(
                f"{self.uri} has been handed to a newer run (epoch {newest}, this run has {self.epoch}); "
                "nothing more was written"
            )

    def assume_epoch(self, epoch: int | None) -> None:
        """Write under an epoch that no table has: to repair tables that no run can open. No run may be in progress."""
        self.epoch, self.epoch_is_open, self._looked_at = epoch, True, math.inf


def observe(observer: Observer) -> None:
    """Call ``observer(name, moment)`` around each write; moment is "before" or "after". Tests stop runs so."""
    _observers.append(observer)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Like ``observe``, while the block lasts."""
    observe(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def observed(name: str) -> Iterator[None]:
    """Tell the observers of a write."""
    _tell(name, "before")
    yield
    _tell(name, "after")


def _tell(name: str, moment: str) -> None:
    _log.debug("%s %s", moment, name)
    for observer in _observers:
        observer(name, moment)
