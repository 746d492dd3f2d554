"""The handle for a store; every read and write of it begins here."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Self

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from messagestore_core.contract.stores import FormerOwner, Owner, Table
from messagestore_core.store.errors import WAY_BACK, TableRefusedError
from messagestore_core.store.foreign import changed, refuse_foreign
from messagestore_core.store.layout import LAST_CHECKPOINT, LOG, entry_name
from messagestore_core.store.notes import Entry, KnownTables, TableAt, entry_of, tables_noted
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects, delta_uri, join
from messagestore_core.store.schemas import OPTIONAL, REMEMBERED, TABLES
from messagestore_core.store.storage import Storage

_NOTE_BYTES = 1 << 16
"""A commit begins with its note; one that changes many files is long."""
_LOOKED_BACK = 4
"""The newest commits that are read one by one: those of a run, and the last of the run before."""


class OpenTable(NamedTuple):
    """An open table at a version, and a mark of the checkpoint that it had then."""

    table: DeltaTable
    version: int
    check_point: bytes | None


class LookedUp(NamedTuple):
    """A transaction's version as of a version of its table; None: the table has no such transaction."""

    at: int
    version: int | None


_NEVER = LookedUp(-1, None)


class Store:
    """One folder with its tables and objects.

    Attributes:
        storage: how its bucket is reached.
        owner: who must own it; None: that is not checked.
        adopt_from: former owners from which it may be taken over.
        epoch: that of the run's grant; None: no operator grants the right to write.
        read_statistics: those of files of which the log tells none, by their paths: see ``statistics``.
        remember_purged: how long ids of purged messages are remembered; None: they are forgotten.
        keeps_history: whether changes of messages get rows in ``history``.
        known: the tables as this process knows them.
    """

    def __init__(
        self,
        uri: str,
        storage: Storage | None = None,
        *,
        owner: Owner | None = None,
        adopt_from: Sequence[FormerOwner] = (),
        epoch: int | None = None,
        remember_purged: timedelta | None = None,
        keeps_history: bool = False,
    ) -> None:
        self.uri = uri
        self.storage = storage or Storage()
        self.owner, self.adopt_from, self.epoch = owner, adopt_from, epoch
        self.read_statistics: dict[str, dict[str, Any]] = {}
        self.remember_purged, self.keeps_history = remember_purged, keeps_history
        self.known = KnownTables()
        self._tables: dict[str, OpenTable] = {}
        self._entries: dict[str, dict[int, Entry]] = {}
        self._transactions: dict[str, dict[str, LookedUp]] = {}

    @classmethod
    def of(cls, table: Table, storage: Storage) -> Self:
        """The store that a run document names."""
        return cls(
            table.uri,
            storage,
            owner=table.owner,
            adopt_from=table.adopt_from,
            epoch=table.epoch,
            remember_purged=table.remember_purged,
            keeps_history=table.keeps_history,
        )

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables, as its spec asks for them; see ``existing_tables``."""
        return (*TABLES, REMEMBERED) if self.remember_purged is not None else (*TABLES,)

    def existing_tables(self) -> tuple[str, ...]:
        """The names of its tables, also of those that are made when needed, or that its spec asks for no longer."""
        options = self.storage.delta_options(self.uri)
        optional = [name for name in OPTIONAL if DeltaTable.is_deltatable(delta_uri(self.path(name)), options)]
        return (*TABLES, *optional)

    def path(self, *names: str) -> str:
        """The URI of a name below the folder."""
        return join(self.uri, *names)

    def objects(self, *names: str) -> Objects:
        """The objects below the folder, or below a folder in it."""
        return Objects(self.path(*names) if names else self.uri, self.storage)

    def table(self, name: str, version: int | None = None) -> DeltaTable:
        """One table, by delta-rs, as it is now or at a version. Only for reading, as callers share it.

        It is opened again only after a commit, as opening a table of 100,000 files takes a second.

        Raises:
            TableRefusedError: its log has something that no run of ours writes.
        """
        if version is not None:
            return self.opened(name, version)
        return self._current(name).table

    def is_empty(self, name: str) -> bool:
        """Whether a table is known to have no rows without opening it."""
        return False

    def version(self, name: str) -> int:
        """The version of a table as it is now."""
        known = self.known.of(name) if self.is_empty(name) else None
        return known.version if known else self.table(name).version()

    def transaction(self, name: str, app_id: str) -> int | None:
        """The version of a transaction in a table as it is now; None: the table has no such transaction.

        Raises:
            TableRefusedError: as in ``table``.
        """
        return self.transaction_of(name, self._current(name).table, app_id)

    def transaction_of(self, name: str, table: DeltaTable, app_id: str) -> int | None:
        """Like ``transaction``, for an opened table.

        The newest commits tell it, if one of them wrote it, or if all that came since an earlier look are among them.
        Otherwise delta-rs tells it, which reads all of the log since its checkpoint.
        """
        looked_up = self._transactions.setdefault(name, {})
        version = self._newest_of(name, table, app_id, looked_up.get(app_id, _NEVER))
        looked_up[app_id] = LookedUp(table.version(), version)
        return version

    def _newest_of(self, name: str, table: DeltaTable, app_id: str, known: LookedUp) -> int | None:
        newest = table.version()
        since = max(known.at, newest - _LOOKED_BACK)
        for version in range(newest, since, -1):
            entry = self.entry_once(name, version)
            if entry is None or entry.transactions is None:
                break
            if app_id in entry.transactions:
                return entry.transactions[app_id]
        else:
            if 0 <= known.at == min(since, newest):
                return known.version
        return table.transaction_version(app_id)

    def _current(self, name: str) -> OpenTable:
        """A table as of a look for commits that nobody here knows."""
        entry = self._tables.get(name)
        # A log loses entries only before a checkpoint.
        if entry is None or self._check_point(name) != entry.check_point:
            entry = self._tables[name] = self._opened_anew(name)
            return entry
        if self.objects(name, LOG).exists(entry_name(entry.table.version() + 1)):
            table = self._advanced(name, entry.table)
        elif entry.table.version() != entry.version:
            # By a commit of this process; others may have made some right before it.
            table = entry.table
            if table.version() > entry.version + 1:
                refuse_foreign(self.uri, name, table)
            self._follow(name, table)
        else:
            return entry
        entry = self._tables[name] = entry._replace(table=table, version=table.version())
        return entry

    def _opened_anew(self, name: str) -> OpenTable:
        """A table that is opened after a look at its last checkpoint."""
        check_point = self._check_point(name)
        table = self.opened(name)
        return OpenTable(table, table.version(), check_point)

    def _check_point(self, name: str) -> bytes | None:
        """A mark of the last checkpoint of a table; None without one."""
        return self.objects(name, LOG).mark(LAST_CHECKPOINT)

    def _advanced(self, name: str, table: DeltaTable) -> DeltaTable:
        """A table as it is after commits that came since it was opened."""
        return self.opened(name)

    def opened(self, name: str, version: int | None = None) -> DeltaTable:
        """Like ``table``, for the caller alone: its version advances with a commit by it.

        Raises:
            TableRefusedError: its log has something that no run of ours writes.
        """
        try:
            return self._opened(name, version)
        except DeltaError as error:
            if version is not None or "checkpoint" not in str(error):
                raise
            # An erasure has removed the one that was named when this began, and named another before.
            return self._opened(name, None)

    def _opened(self, name: str, version: int | None) -> DeltaTable:
        table = self.read(name, version)
        refuse_foreign(self.uri, name, table)
        if version is None:
            # Another table may have taken its place.
            self._entries.pop(name, None)
            self._transactions.pop(name, None)
            self._follow(name, table)
        return table

    def last_opened(self, name: str) -> DeltaTable | None:
        """What ``table`` returned last, without a look whether there is a newer version; None: nothing yet."""
        entry = self._tables.get(name)
        return entry.table if entry else None

    def entry(self, name: str, version: int) -> Entry | None:
        """An entry of a table's log, as it is now; None: the log no longer has it."""
        named = entry_name(version)
        copied = self.copied(name, named)
        pieces = iter([copied]) if copied else self.objects(name, LOG).pieces(named, _NOTE_BYTES)
        if pieces is None:
            return None
        first = next(pieces, b"")
        entry = entry_of(first, is_whole=len(first) < _NOTE_BYTES)
        if entry.tables is None:
            entry = entry_of(first + b"".join(pieces))
        self._keep(name, version, entry)
        return entry

    def actions(self, name: str, version: int) -> list[dict[str, Any]]:
        """The actions of an entry of a table's log; empty: the log no longer has it.

        Raises:
            TableRefusedError: it is larger than any that we write.
            ValueError: it can't be read.
        """
        text = self.log_object(name, entry_name(version)) or b""
        return [json.loads(line) for line in text.splitlines()]

    def log_object(self, name: str, named: str) -> bytes | None:
        """The bytes of an object of a table's log by its name; None: there is none.

        Raises:
            TableRefusedError: as in ``actions``.
        """
        return self.copied(name, named) or self.objects(name, LOG).read(named, LARGEST_DOCUMENT)

    def copied(self, name: str, named: str) -> bytes | None:
        """The same from a copy on this machine; None: there is none."""
        return None

    def wrote(self, name: str, version: int, properties: CommitProperties) -> None:
        """This process has written an entry of a table's log with these properties, so that it needn't be read."""
        transactions = {one.app_id: one.version for one in properties.app_transactions or ()}
        said = (properties.custom_metadata or {}).get("userMetadata")
        self._keep(name, version, Entry(tables_noted(said), False, "WRITE", said, transactions))

    def _keep(self, name: str, version: int, entry: Entry) -> None:
        known = self._entries.setdefault(name, {})
        known[version] = entry
        for passed in sorted(known)[:-_LOOKED_BACK]:
            del known[passed]

    def entry_once(self, name: str, version: int) -> Entry | None:
        """Like ``entry``; read once since the table was opened."""
        return self._entries.get(name, {}).get(version) or self.entry(name, version)

    def _follow(self, name: str, table: DeltaTable) -> None:
        """Look at the commits of others since a table was last opened."""
        known, now = self.known.of(name), TableAt(id=str(table.metadata().id), version=table.version())
        if known is not None and (known.id != now.id or known.version > now.version):
            raise TableRefusedError(f"{self.path(name)} was replaced while this run went on. {WAY_BACK}")
        for version in range(known.version + 1, now.version + 1) if known else ():
            entry = self.entry(name, version)
            if entry is not None and entry.is_foreign:
                raise TableRefusedError(f"{changed(self.uri, name, version, entry.operation)}. {WAY_BACK}")
        self.known.reached(name, now)

    def read(self, name: str, version: int | None = None) -> DeltaTable:
        """Like ``opened``, without a check of what its log says."""
        options = self.storage.delta_options(self.uri)
        return DeltaTable(delta_uri(self.path(name)), version=version, storage_options=options)
