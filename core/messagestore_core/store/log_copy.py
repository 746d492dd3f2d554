"""Copies of tables' logs on this machine, by which a run asks a bucket for each object of a log once.

delta-rs reads a checkpoint in eleven pieces and each commit twice, lists the log twice for each commit of its own, and
reads all of it again to write a checkpoint. For a small run these are most requests.

A commit is made on the copy first. Its files and then its entry are written where the table is, the entry only if there
is none of that version. So a commit that somebody else made since the copy is a conflict, whatever it did.
"""

import json
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs
from typing_extensions import override

from messagestore_core.store.delta_log import checkpoint_in
from messagestore_core.store.handle import OpenTable, Store
from messagestore_core.store.layout import LAST_CHECKPOINT, LOG, entry_name
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects, delta_uri, is_local, join
from messagestore_core.store.storage import Storage

_AT_ONCE = 8
_COPIED = re.compile(r"[0-9]{20}(\.json|\.checkpoint\.parquet)")


class LogCopy:
    """A folder of this machine with the log of one table, from its last checkpoint on.

    Args:
        uri: of the table, on object storage.

    Attributes:
        check_point: a mark of the last checkpoint; None without one.
    """

    check_point: bytes | None = None

    def __init__(self, uri: str, storage: Storage) -> None:
        self._uri, self._options = delta_uri(uri), storage.delta_options(uri)
        self._files, self._log = Objects(uri, storage), Objects(join(uri, LOG), storage)
        self._path = Path(tempfile.mkdtemp(prefix="messagestore-log-"))
        weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        (self._path / LOG).mkdir()

    def open(self) -> "CopiedTable | None":
        """Copy the log, and open the table by it; None where delta-rs has to look for itself, as without a table.

        Raises:
            OSError: the bucket can't be reached, or refuses.
        """
        said, self.check_point = self._log.read_and_mark(LAST_CHECKPOINT, LARGEST_DOCUMENT) or (None, None)
        first = checkpoint_in(said)
        if first is None:
            return None
        names = [name for name in self._log.names_after(f"{first:020d}") if _COPIED.fullmatch(name)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(self._copy, names))
        if said:
            self._entry(LAST_CHECKPOINT).write_bytes(said)
        try:
            return CopiedTable(self, self._path)
        except DeltaError:
            return None

    def read(self, named: str) -> bytes | None:
        """An object of the log, if the copy has it."""
        path = self._entry(named)
        return path.read_bytes() if path.exists() else None

    def follow(self, version: int) -> None:
        """Copy the entries that came after a version."""
        while self._copy(entry_name(version := version + 1)):
            pass

    def publish(self, version: int) -> bool:
        """Write where the table is what a commit on the copy has made; False: that has another commit of this version.

        Raises:
            OSError: the bucket can't be reached, or refuses.
        """
        entry = self._entry(entry_name(version)).read_bytes()
        for path in _added(entry):
            self._files.write(path, (self._path / path).read_bytes())
        if not self._log.create(entry_name(version), entry):
            return False
        checkpoint = f"{version:020d}.checkpoint.parquet"
        for made in (checkpoint, LAST_CHECKPOINT) if self._entry(checkpoint).exists() else ():
            self._log.write(made, self._entry(made).read_bytes())
        return True

    def original(self) -> DeltaTable:
        """The table itself."""
        return DeltaTable(self._uri, storage_options=self._options)

    def rows(self, sizes: dict[str, int]) -> fs.FileSystem:
        """The file system with the table's data files, of known sizes in bytes."""
        return fs.PyFileSystem(DeltaStorageHandler(self._uri, self._options, sizes))

    def _entry(self, name: str) -> Path:
        return self._path / LOG / name

    def _copy(self, name: str) -> bool:
        """Copy an object; returns whether there is one."""
        pieces = self._log.pieces(name, 1 << 20)
        if pieces is None:
            return False
        with self._entry(name).open("wb") as file:
            file.writelines(pieces)
        return True


class CopiedTable(DeltaTable):
    """A table whose log was copied; its rows are read where they are, and only ``commit`` makes commits."""

    def __init__(self, copy: LogCopy, folder: Path) -> None:
        super().__init__(folder)
        self.copy = copy

    def commit(self, write: Callable[[DeltaTable], None]) -> bool:
        """Make one commit that reads no rows.

        Returns:
            False: it reads some, or somebody else has committed since the copy was made. Then nothing was committed,
            and this object is of no more use.

        Raises:
            OSError: as in ``publish``; it may have been committed.
        """
        version = self.version() + 1
        try:
            write(self)
        except (DeltaError, OSError):
            return False
        return self.copy.publish(version)

    @override
    def update_incremental(self) -> None:
        self.copy.follow(self.version())
        super().update_incremental()

    @override
    def to_pyarrow_dataset(self, *args: Any, **how: Any) -> ds.Dataset:
        files = self.copy.rows(self._table.get_add_file_sizes())
        return super().to_pyarrow_dataset(*args, **{**how, "filesystem": files})

    @override
    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits that the table itself has, which may be more than the copy."""
        return self.copy.original().history(limit)


def _copied(uri: str, storage: Storage) -> CopiedTable | None:
    """A table on object storage, opened by a copy of its log; None where that can't be done."""
    try:
        return LogCopy(uri, storage).open()
    except (OSError, ValueError):
        # The bucket or a name in it, which delta-rs will meet as well, or this machine's disk.
        return None


class CopyingStore(Store):
    """A store that may open its tables by copies of their logs.

    Attributes:
        copies_logs: whether it does so on object storage, which pays for a small run.
    """

    copies_logs = False

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._copies: dict[str, LogCopy] = {}

    @override
    def read(self, name: str, version: int | None = None) -> DeltaTable:
        if version is None:
            self._copies.pop(name, None)
            if self._makes_copies() and (copied := _copied(self.path(name), self.storage)):
                self._copies[name] = copied.copy
                return copied
        return super().read(name, version)

    def _makes_copies(self) -> bool:
        return self.copies_logs and not is_local(self.uri)

    @override
    def _opened_anew(self, name: str) -> OpenTable:
        table = self.opened(name) if self._makes_copies() else None
        if isinstance(table, CopiedTable):
            return OpenTable(table, table.version(), table.copy.check_point)
        return super()._opened_anew(name)

    @override
    def copied(self, name: str, named: str) -> bytes | None:
        return self._copies[name].read(named) if name in self._copies else None

    def commit_by_copy(self, name: str, table: CopiedTable, write: Callable[[DeltaTable], None]) -> bool:
        """Make a commit as ``CopiedTable.commit`` does; if that can't be, no log is copied from then on."""
        done = False
        try:
            done = table.commit(write)
        finally:
            if not done:
                self.copies_logs = False
                self._tables.pop(name, None)
                self._copies.pop(name, None)
        return done

    def without_copy(self, name: str, version: int) -> DeltaTable:
        """A table that was opened by a copy, opened without one at the same version."""
        table = self.read(name, version)
        self._tables[name] = OpenTable(table, version, self._check_point(name))
        self._copies.pop(name, None)
        return table


def _added(entry: bytes) -> Iterator[str]:
    """The paths of the files that an entry adds."""
    for line in entry.splitlines():
        added = json.loads(line).get("add")
        if added:
            yield unquote(added["path"])
