"""Whether the tables of a store belong together: none is missing, another, older than the others know it, or changed.

Each commit of ours names the tables and the versions that they had reached. So a table that somebody has rolled back,
removed or made again contradicts the newest commits of the other tables. What no other commit names can't be noticed.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from messagestore_core.store.errors import WAY_BACK, TableRefusedError
from messagestore_core.store.foreign import changed
from messagestore_core.store.handle import Store
from messagestore_core.store.notes import TableAt
from messagestore_core.store.schemas import EVERY_TABLE

NOTED_SINCE = 3
"""The format version since which all commits have notes."""
_FIRST = ("messages", "dead_letters", "heads", "tombstones", "audit", "files", "offsets")
"""The tables of every release; a store may lack others until its upgrade has ended."""


class TableLog(NamedTuple):
    """A table, and what its log says since the newest commit with a note.

    Attributes:
        table: as it is now; None: it has no rows, and nobody has opened it.
        at: its id and version.
        noted: the version of the newest commit with a note; None: the log has none any more, or had none yet.
        tables: what that note says.
        foreign: commits of others that changed data, and that the note does not cover: version and operation.
    """

    table: DeltaTable | None
    at: TableAt
    noted: int | None
    tables: Mapping[str, TableAt]
    foreign: tuple[tuple[int, str], ...]


Tables = Mapping[str, TableLog | None]
"""The tables by name; None for a missing one."""


class Problem(NamedTuple):
    """What is wrong with a table, for people."""

    table: str
    kind: str
    """missing, replaced, older or changed."""
    words: str


def check_tables(store: Store, format_version: int) -> None:
    """Check the tables of a store against each other, once for a handle. Nothing is written.

    Raises:
        TableRefusedError: they don't belong together.
    """
    if store.known.checked:
        return
    tables = read_tables(store, format_version)
    wrong = problems(store, tables, named_by(tables))
    if wrong:
        # Another run may have written one table between the looks at two.
        store.known.unopened.clear()
        again = read_tables(store, format_version)
        wrong = problems(store, again, named_by(tables))
        tables = again
    if wrong:
        words = "; ".join(problem.words for problem in wrong)
        raise TableRefusedError(
            f"the tables of {store.uri} do not belong together: {words}; nothing was written. {WAY_BACK}"
        )
    store.known.checked = True
    store.known.noted.update(name for name, state in tables.items() if state and state.noted is not None)


def read_tables(store: Store, format_version: int) -> Tables:
    """All tables of a store as they are now: those that its spec asks for, and any other that a note names."""
    find = partial(_find, store, has_notes=format_version >= NOTED_SINCE)
    with ThreadPoolExecutor(len(EVERY_TABLE)) as threads:
        tables = dict(zip(store.tables, threads.map(find, store.tables), strict=True))
    named = {name for state in tables.values() if state for name in state.tables}
    return tables | {name: find(name) for name in EVERY_TABLE if name in named - tables.keys()}


def named_by(tables: Tables) -> dict[str, list[tuple[str, TableAt]]]:
    """What the tables' newest notes say about each table, and which table says it."""
    named: dict[str, list[tuple[str, TableAt]]] = {name: [] for name in tables}
    for name, state in tables.items():
        for other, at in state.tables.items() if state else ():
            if other in named:
                named[other].append((name, at))
    return named


def problems(store: Store, tables: Tables, named: Mapping[str, list[tuple[str, TableAt]]]) -> list[Problem]:
    """What is wrong with a store's tables.

    Args:
        tables: as they are.
        named: what their notes said, before that.
    """
    return [problem for name, state in tables.items() for problem in _problems(store, tables, name, state, named[name])]


def _find(store: Store, name: str, *, has_notes: bool) -> TableLog | None:
    known = store.known.of(name)
    if known is not None and name in store.known.unopened:
        return TableLog(None, known, known.version, {}, ())
    try:
        table = store.table(name)
    except TableNotFoundError:
        return None
    at = TableAt(id=str(table.metadata().id), version=table.version())
    noted, tables, foreign = _since_note(store, name, at.version) if has_notes else (None, {}, ())
    return TableLog(table, at, noted, tables, foreign)


def _since_note(
    store: Store, name: str, version: int
) -> tuple[int | None, Mapping[str, TableAt], tuple[tuple[int, str], ...]]:
    """The newest commit with a note and what it says, and the commits of others that it does not cover.

    Without a note in the log, nothing is known of its commits.
    """
    foreign: list[tuple[int, str]] = []
    for at in range(version, -1, -1):
        entry = store.entry(name, at)
        if entry is None:
            break
        if entry.tables is not None:
            own = entry.tables.get(name)
            foreign += _foreign(store, name, range(at - 1, own.version if own else at - 1, -1))
            return at, entry.tables, tuple(foreign)
        if entry.is_foreign:
            foreign.append((at, entry.operation))
    return None, {}, ()


def _foreign(store: Store, name: str, versions: range) -> Iterator[tuple[int, str]]:
    for version in versions:
        entry = store.entry(name, version)
        if entry is not None and entry.is_foreign:
            yield version, entry.operation


def _has_rows(table: DeltaTable | None) -> bool:
    return table is not None and bool(table.get_add_actions().num_rows)


def _problems(
    store: Store, tables: Tables, name: str, state: TableLog | None, named: list[tuple[str, TableAt]]
) -> Iterator[Problem]:
    path = store.path(name)
    if state is None:
        if named:
            yield Problem(name, "missing", f"{path} is missing, and the log of {named[0][0]} names it")
        elif (others := [other for other, one in tables.items() if one and _has_rows(one.table)]) and name in _FIRST:
            yield Problem(name, "missing", f"{path} is missing, and {others[0]} has rows")
        return
    replaced = [by for by, at in named if at.id != state.at.id]
    older = [(at.version, by) for by, at in named if at.id == state.at.id and at.version > state.at.version]
    if replaced:
        yield Problem(name, "replaced", f"{path} is another table than the one that the log of {replaced[0]} names")
    if older:
        version, by = max(older)
        words = f"it is at version {state.at.version}, and the log of {by} names {version}"
        yield Problem(name, "older", f"{path} is older than it was: {words}")
    for version, operation in state.foreign[:1]:
        yield Problem(name, "changed", changed(store.uri, name, version, operation))
