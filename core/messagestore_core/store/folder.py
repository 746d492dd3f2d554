"""The table folder: its owner, and the tables in it."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pydantic import BaseModel, Field

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Owner
from messagestore_core.store.audit import note
from messagestore_core.store.delta_log import CommitNote, empty_commit
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.foreign import partition_columns
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import MARKER, PARTIAL
from messagestore_core.store.objects import LARGEST_DOCUMENT, delta_uri, first_link, parsed_document
from messagestore_core.store.schemas import EVERY_TABLE, properties
from messagestore_core.store.together import check_tables

FORMAT_VERSION = 4
"""Grows with each release that adds tables, columns or properties; earlier releases then refuse the store."""
_READ = ("tombstones", "dead_letters", "messages")
"""The tables that a read-only run needs; every release has had them."""


def check_folder(store: Store) -> bytes | None:
    """Check that a folder is this owner's, or may become it, and that its tables belong together. Nothing is written.

    Returns:
        The content of its marker; None: it has none yet.

    Raises:
        TableRefusedError: the folder is another's, holds something else, or is of a newer format; or its tables are not
            as the store's runs left them.
    """
    refuse_links(store.uri)
    objects = store.objects()
    content = objects.read(MARKER, LARGEST_DOCUMENT)
    if content is not None:
        marker = parsed_marker(store, content)
        _refuse_others(store, marker.owner)
        if isinstance(store, HeldStore) and not store.known.checked:
            store.trust_last_run()
        check_tables(store, marker.format_version)
        return content
    names = [name for name in objects.names() if not name.endswith(PARTIAL)]
    if names:
        raise TableRefusedError(
            f"{store.uri} is no message store and is not empty (it holds {names[0]}); "
            "name an empty folder in spec.table.uri"
        )
    return None


def open_folder(store: HeldStore, by: RunDocument | None = None) -> None:
    """Bring the folder to the format of this release: make a store in an empty one, upgrade one of an earlier release.

    The caller holds the right to write. If this breaks off at any point, it can be repeated.

    Args:
        by: the run's document; an adoption or upgrade is noted in the audit under it.

    Raises:
        TableRefusedError: as in ``check_folder``; or a table's log has something that no run of ours writes.
    """
    _own(store, by, check_folder(store))
    run = by.run if by else ""
    names = store.tables
    with ThreadPoolExecutor(len(names)) as threads:
        complete = dict(zip(names, threads.map(partial(_is_complete, store), names), strict=True))
    # Messages come last: if they exist, all tables do that every store has.
    for name in reversed(names):
        if not complete[name]:
            _complete(store, name, run)
    store.known.all()
    for name in names:
        if name not in store.known.noted:
            _note(store, name, run)


def has_own_marker(store: Store) -> bool:
    """Whether a run of this owner and this release wrote the marker."""
    return store.objects().read(MARKER, LARGEST_DOCUMENT) == _marker(store)


class _Format(BaseModel):
    """What a marker of any format has."""

    format_version: int = Field(alias="formatVersion")


class Marker(_Format):
    """What the marker in a store's folder says."""

    owner: Owner


def parsed_marker(store: Store, content: bytes) -> Marker:
    """What a marker's content says.

    Raises:
        TableRefusedError: the content is no marker, or one of a newer format.
    """
    version = parsed_document(_Format, content, store.path(MARKER)).format_version
    if version > FORMAT_VERSION:
        raise TableRefusedError(
            f"{store.uri} has format version {version}, this release knows up to {FORMAT_VERSION}; "
            "use the release that wrote it, or a newer one"
        )
    return parsed_document(Marker, content, store.path(MARKER))


def read_marker(store: Store) -> Marker:
    """What the marker of a store says.

    Raises:
        TableRefusedError: there is no marker, or one of a newer format.
    """
    content = store.objects().read(MARKER, LARGEST_DOCUMENT)
    if content is None:
        raise TableRefusedError(f"{store.uri} is no message store: it has no {MARKER}")
    return parsed_marker(store, content)


def refuse_links(uri: str) -> None:
    """Raise TableRefusedError for a local folder with a link in it, as the link's target is not the store's."""
    link = first_link(uri)
    if link is not None:
        raise TableRefusedError(f"{link} is a link or a device, which no run makes: remove it")


def _own(store: HeldStore, by: RunDocument | None, marker: bytes | None) -> None:
    """Make the marker name this owner and this format, before a table has what an earlier release doesn't know."""
    objects, wanted = store.objects(), _marker(store)
    if marker is None:
        with store.step("marker"):
            made = objects.create(MARKER, wanted)
        # If two found the folder empty, one of them made the marker.
        marker = wanted if made else objects.read(MARKER, LARGEST_DOCUMENT) or b""
        _refuse_others(store, parsed_marker(store, marker).owner)
    if marker != wanted:
        _tell(store, by, marker)
        with store.step("marker"):
            objects.write(MARKER, wanted)


def _tell(store: HeldStore, by: RunDocument | None, marker: bytes) -> None:
    """Note in the audit what the new marker changes; before it changes, so that no change lacks a row."""
    if by is None or not exists(store):
        return
    said = parsed_marker(store, marker)
    if said.owner != store.owner:
        note(store, by, "Adopt", {"from": f"{said.owner.namespace}/{said.owner.name}"})
    if said.format_version < FORMAT_VERSION:
        note(store, by, "Upgrade", {"from": said.format_version, "to": FORMAT_VERSION})


def _refuse_others(store: Store, owner: Owner) -> None:
    if owner == store.owner or any(former.covers(owner) for former in store.adopt_from):
        return
    take_over = f"set annotation messagestore.dev/adopt-table: {store.uri} to take it over"
    if not _is_neighbour(store, owner):
        take_over += "; its owner has to release it, by annotation messagestore.dev/release-table-to"
    raise TableRefusedError(f"{belongs(store, owner)}; name another folder, or {take_over}")


def belongs(store: Store, owner: Owner) -> str:
    """Who owns the folder, for people; other namespaces don't learn the owner's name."""
    if not _is_neighbour(store, owner):
        return f"{store.uri} belongs to another namespace's MessageStream"
    return f"{store.uri} belongs to MessageStream {owner.namespace}/{owner.name}"


def _is_neighbour(store: Store, owner: Owner) -> bool:
    return store.owner is not None and store.owner.namespace == owner.namespace


def _marker(store: Store) -> bytes:
    assert store.owner is not None
    return json.dumps({"formatVersion": FORMAT_VERSION, "owner": store.owner.model_dump()}).encode()


def _is_complete(store: Store, name: str) -> bool:
    """Whether a table exists and lacks nothing."""
    try:
        return store.is_empty(name) or _has_all(name, store.table(name))
    except TableNotFoundError:
        return False


def _has_all(name: str, table: DeltaTable) -> bool:
    return not (_missing_columns(name, table) or _missing_properties(name, table))


def _complete(store: HeldStore, name: str, run: str) -> None:
    """Make a table, or add what it lacks to it."""
    try:
        table = store.open_to_write(name)
    except TableNotFoundError:
        create_table(store, name, run)
        return
    _add_columns(store, name, table, run)
    _set_properties(store, name, run)


def create_table(store: HeldStore, name: str, run: str) -> None:
    """Make an empty table if it is missing."""
    with store.step(f"create-{name}"):
        made = DeltaTable.create(
            delta_uri(store.path(name)),
            EVERY_TABLE[name],
            mode="ignore",
            partition_by=partition_columns(name) or None,
            configuration=properties(name),
            storage_options=store.storage.delta_options(store.uri),
            commit_properties=store.commit_properties(CommitNote(run=run) if name == "messages" else None),
        )
    store.known.made(name, made)


def _note(store: HeldStore, name: str, run: str) -> None:
    """Commit the first note on a table of an earlier release, so that later commits of others show."""
    table = store.open_to_write(name)
    with store.step(f"note-{name}"):
        empty_commit(table, name, store.carrying_on(name, table, run))
    store.known.noted.add(name)


def _add_columns(store: HeldStore, name: str, table: DeltaTable, run: str) -> None:
    """Add columns that a table of an earlier release lacks; its rows have nulls there."""
    missing = _missing_columns(name, table)
    if missing:
        added = Schema.from_arrow(pa.schema(missing)).fields
        with store.step(f"upgrade-{name}"):
            table.alter.add_columns(added, commit_properties=store.carrying_on(name, table, run))


def _set_properties(store: HeldStore, name: str, run: str) -> None:
    table = store.open_to_write(name)
    missing = _missing_properties(name, table)
    if missing:
        with store.step(f"properties-{name}"):
            table.alter.set_table_properties(missing, commit_properties=store.carrying_on(name, table, run))


def _missing_columns(name: str, table: DeltaTable) -> list[pa.Field]:
    columns = {field.name for field in table.schema().fields}
    return [field for field in EVERY_TABLE[name] if field.name not in columns]


def _missing_properties(name: str, table: DeltaTable) -> dict[str, str]:
    return dict(properties(name).items() - table.metadata().configuration.items())


def store_id(store: Store) -> str:
    """The id of a store, by which one that was made again in the same folder is told apart: that of its messages."""
    return str(store.table("messages").metadata().id)


def exists(store: Store) -> bool:
    """Whether the folder has a complete message store."""
    options = store.storage.delta_options(store.uri)
    return store.objects().exists(MARKER) and all(
        DeltaTable.is_deltatable(delta_uri(store.path(name)), options) for name in _READ
    )
