"""The note in each commit of ours, on every table, and what this process knows of a store's tables.

A note names the tables as the run knows them, each by its id and a version that it has reached. For the table of the
commit itself, that is the version up to which this run or an earlier one has looked at all commits.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

from deltalake import DeltaTable
from pydantic import BaseModel, Field, ValidationError

from messagestore_core.clock import from_microseconds
from messagestore_core.contract.base import ContractModel

_VERSIONS = 1 << 53


class TableAt(ContractModel):
    """One table: its id, and a version that it has reached."""

    id: str
    version: Annotated[int, Field(ge=0, lt=_VERSIONS)]


class TablesNote(ContractModel):
    """The user metadata of one commit."""

    epoch: int | None = None
    """The epoch of the run's grant; see ``fence``."""
    tables: dict[str, TableAt] | None = None
    """The store's tables, as far as the run had opened them; None in notes of earlier releases."""

    def json_text(self) -> str:
        """The text in the commit."""
        return self.model_dump_json(by_alias=True)


class Entry(NamedTuple):
    """What one entry of a table's log says.

    Attributes:
        tables: those in its note; None without one.
        is_foreign: whether somebody else changed data: it has no note, and adds or removes rows. Merged files and a
            VACUUM change none.
        said: its user metadata.
        transactions: the versions of the transactions that it writes; None: that is not known.
    """

    tables: Mapping[str, TableAt] | None
    is_foreign: bool
    operation: str
    said: str | None = None
    transactions: Mapping[str, int] | None = None


_UNREADABLE = Entry(None, True, "a commit that can't be read")


class _Said(BaseModel):
    tables: dict[str, TableAt]


def entry_of(content: bytes, *, is_whole: bool = True) -> Entry:
    """Read an entry of a table's log, which anybody may have written.

    Args:
        content: of the entry, or how it begins.
        is_whole: whether that is all.
    """
    try:
        lines = content.splitlines()
        infos = [json.loads(line)["commitInfo"] for line in lines if line.startswith(b'{"commitInfo"')]
        info = infos[0] if infos else {}
        said = info.get("userMetadata")
        tables = tables_noted(said)
        is_foreign = tables is None and any(_changes_data(json.loads(line)) for line in lines if line.strip())
        transactions = _transactions(lines) if is_whole else None
        return Entry(tables, is_foreign, str(info.get("operation", "a commit without a name")), said, transactions)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _UNREADABLE


def commit_time(content: bytes) -> datetime | None:
    """When an entry of a table's log was committed; None where it doesn't say so."""
    try:
        infos = [json.loads(line)["commitInfo"] for line in content.splitlines() if line.startswith(b'{"commitInfo"')]
        return from_microseconds(int(infos[0]["timestamp"]) * 1000)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        return None


def tables_noted(text: str | None) -> Mapping[str, TableAt] | None:
    """The tables in the user metadata of a commit; None without a note."""
    try:
        return _Said.model_validate_json(text).tables if text else None
    except ValidationError:
        return None


def _transactions(lines: Sequence[bytes]) -> Mapping[str, int] | None:
    """The transactions of a whole entry; None where it can't be read, or in two ways."""
    try:
        written = [action["txn"] for line in lines if line.strip() and "txn" in (action := json.loads(line))]
        versions = {str(one["appId"]): int(one["version"]) for one in written}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return versions if len(versions) == len(written) else None


def _changes_data(action: Mapping[str, Mapping[str, object]]) -> bool:
    return any(action[kind].get("dataChange") is not False for kind in ("add", "remove") if kind in action)


class KnownTables:
    """The tables of a store as this process knows them: opened, checked or written by it.

    Attributes:
        checked: whether the tables were checked against each other.
        noted: the tables of which a commit has a note.
        unopened: the tables without rows that are as the run before left them, and that this process has not opened;
            for each the mark of its last commit.
    """

    def __init__(self) -> None:
        self.checked = False
        self.noted: set[str] = set()
        self.unopened: dict[str, str] = {}
        self._tables: dict[str, TableAt] = {}
        self._written: dict[str, tuple[int, DeltaTable]] = {}
        self._looked_at: set[str] = set()
        self._to_look_at: set[str] = set()
        self._begun: set[str] = set()

    def all(self) -> dict[str, TableAt]:
        """Each table that was opened, as it is known."""
        for name in list(self._written):
            self._note_written(name)
        return dict(self._tables)

    def of(self, name: str) -> TableAt | None:
        """One table as it is known; None: it was never opened."""
        self._note_written(name)
        return self._tables.get(name)

    def reached(self, name: str, at: TableAt) -> None:
        """A table was opened, and all of its commits that nobody knew were looked at."""
        self._tables[name] = at
        self._written.pop(name, None)
        self.unopened.pop(name, None)

    def left_empty(self, tables: Mapping[str, TableAt], marks: Mapping[str, str]) -> None:
        """These tables are as the run before has left them, without rows."""
        for name, mark in marks.items():
            self.reached(name, tables[name])
            self.noted.add(name)
            self.unopened[name] = mark

    def made(self, name: str, table: DeltaTable) -> None:
        """This process has made a table, with a note in its first commit."""
        self.noted.add(name)
        self.reached(name, TableAt(id=str(table.metadata().id), version=table.version()))

    def looked_at(self, name: str) -> None:
        """All commits on a table until now are known."""
        self._looked_at.add(name)
        self._to_look_at.discard(name)

    def look_again(self, name: str) -> None:
        """Others may have committed to a table."""
        self._looked_at.discard(name)
        self._to_look_at.add(name)

    def awaits_own(self, name: str) -> bool:
        """Whether, since the last look for others' commits, there were only commits that this process has made."""
        return not self.is_begun(name) and name not in self._to_look_at

    def is_looked_at(self, name: str) -> bool:
        """Whether this process has not begun a commit on a table since it looked for others' commits."""
        # First, as a commit that is known by now ends what was looked at.
        return not self.is_begun(name) and name in self._looked_at

    def is_begun(self, name: str) -> bool:
        """Whether a commit on a table was begun and is not known to be made."""
        self._note_written(name)
        return name in self._written or name in self._begun

    def beginning(self, name: str) -> None:
        """A commit on a table is about to be made by Spark, which may not answer."""
        self._begun.add(name)

    def writing(self, name: str, table: DeltaTable) -> None:
        """A commit on a table is about to be made by this object, whose version then advances."""
        self._note_written(name)
        self._written[name] = (table.version(), table)

    def committed(self, name: str, version: int) -> None:
        """This process has made a version of a table."""
        self.noted.add(name)
        self._begun.discard(name)
        self._looked_at.discard(name)
        known = self._tables.get(name)
        # Commits of others in between are looked at when the table is opened again.
        if known is not None and version == known.version + 1:
            self._tables[name] = known.model_copy(update={"version": version})

    def _note_written(self, name: str) -> None:
        if name in self._written:
            before, table = self._written[name]
            if table.version() > before:
                del self._written[name]
                # Then nobody else committed since the look before it.
                is_next, was_looked_at = table.version() == before + 1, name in self._looked_at
                self.committed(name, before + 1 if is_next else before)
                if is_next and was_looked_at:
                    self._looked_at.add(name)
