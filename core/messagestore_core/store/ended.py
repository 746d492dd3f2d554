"""What a run that has ended says of its store, by which a later one knows that it has nothing to do.

It is a run's last write. It proves something only while the tables have the versions that it names: if another run came
since, broke off, or wrote this later than the next one began, it names other versions, and nobody goes by it.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import LAST_RUN, LOG, entry_name
from messagestore_core.store.notes import TableAt
from messagestore_core.store.objects import is_local, parsed_document
from messagestore_core.store.schemas import EVERY_TABLE, properties

_AT_ONCE = 16
_MOST_BYTES = 1 << 20


class SeenFiles(ContractModel):
    """What a source of files had when a run had read all of it."""

    digest: str
    """Of the names, sizes and times of its files."""
    files: int
    bytes: int
    """About how many after decompression."""
    newest: datetime | None = None
    """The last time that a file changed; absent: there was none."""


class Quiet(ContractModel):
    """The end of a run that has left an ingest nothing to do."""

    outcome: IngestOutcome
    due_at: datetime | None = None
    """When time alone gives a run something to do, by its own clock; absent: never."""
    lines_rest_at: datetime | None = None
    """When the last lines that are not read yet can be read, by the clock of this machine; absent: there are none."""


class Ended(ContractModel):
    """What the run that ended last says of its store."""

    epoch: int | None = None
    tables: dict[str, TableAt] = {}
    asked: str | None = None
    """A digest of what the last ingest was asked to do; absent: there was none."""
    sources: dict[str, SeenFiles] = {}
    """Those that it had read whole, by their ids."""
    adds_only: bool = False
    """Whether an ingest of new files will do little else than to read them and to add their messages."""
    bytes: int | None = None
    """Of the files of ``messages``, the most that an ingest reads besides what is new; absent: not known."""
    quiet: Quiet | None = None
    """Absent if an ingest may have something to do besides what is new."""
    empty: dict[str, str] = {}
    """The tables without rows, each with the mark of its last commit."""


def digest_of(document: RunDocument) -> str:
    """A digest of all that an ingest is asked to do, holds and translators among it."""
    assert isinstance(document.task, IngestTask)
    task = f"{document.task.model_dump_json()} {document.table.remember_purged}"
    return hashlib.sha256(task.encode()).hexdigest()


def read_ended(store: Store) -> Ended | None:
    """What the last run says; None where it says nothing that this release can read."""
    try:
        content = store.objects().read(LAST_RUN, _MOST_BYTES)
        said = None if content is None else parsed_document(Ended, content, store.path(LAST_RUN))
    except TableRefusedError:
        return None
    return said if said is not None and said.tables.keys() <= EVERY_TABLE.keys() else None


def is_newest(store: Store, ended: Ended) -> bool:
    """Whether no run has come since.

    With an epoch a run claims ``messages`` before it writes anything. Without one, and on this machine, where a look is
    free, no table may have a later version.
    """
    alone = ended.epoch is None or is_local(store.uri)
    names = ended.tables if alone else {"messages"} & ended.tables.keys()
    return bool(names) and not any(_has(store, name, ended.tables[name].version + 1) for name in names)


def left_empty(store: Store, ended: Ended) -> dict[str, str]:
    """The tables that a run has left without rows, and that nobody has written since, with their marks.

    A table costs nine requests to open. This release would have made it with the same columns and properties.
    """

    def is_as_left(name: str) -> bool:
        at = ended.tables.get(name)
        return (
            at is not None
            and mark(store, name, at.version) == ended.empty[name]
            and not _has(store, name, at.version + 1)
        )

    names = ended.empty.keys() & EVERY_TABLE.keys()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return {
            name: ended.empty[name] for name, same in zip(names, threads.map(is_as_left, names), strict=True) if same
        }


def mark(store: Store, name: str, version: int) -> str | None:
    """What changes with a commit on a table, and with what a release makes the table with; None without the commit."""
    commit = store.objects(name, LOG).mark(entry_name(version))
    if commit is None:
        return None
    made_with = f"{EVERY_TABLE[name]} {sorted(properties(name).items())}"
    return hashlib.sha256(commit + made_with.encode()).hexdigest()


def has_tables(store: Store, ended: Ended) -> bool:
    """Whether all tables are there, and have the versions that a run left."""
    if not set(store.tables) <= set(ended.tables):
        return False
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return all(threads.map(lambda name: _has(store, name, ended.tables[name].version), ended.tables))


def _has(store: Store, name: str, version: int) -> bool:
    return store.objects(name, LOG).exists(entry_name(version))
