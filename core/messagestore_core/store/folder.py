"""The table folder: whose it is, and the tables in it."""

import json

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from pydantic import BaseModel, Field

from messagestore_core.contract.run_document import Owner, RunDocument, Table
from messagestore_core.store.audit import note
from messagestore_core.store.delta_log import open_table
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.external import external_write
from messagestore_core.store.fence import carrying_on, commit_properties, open_to_write
from messagestore_core.store.foreign import partition_columns
from messagestore_core.store.objects import LARGEST_DOCUMENT, Objects, delta_uri, first_link, join, parsed_document
from messagestore_core.store.schemas import TABLES, properties
from messagestore_core.store.storage import current

FORMAT_VERSION = 2
"""Raised with each release that adds tables, columns or properties; an earlier release refuses the store then."""
MARKER = "_messagestore.json"
_READ = ("tombstones", "dead_letters", "messages")
"""The tables that a run needs which only reads; every release has had them."""


def check_folder(table: Table) -> None:
    """Make sure that a folder is this owner's, or one that may become it. Nothing is written.

    Raises:
        TableRefusedError: the folder is another's, holds something else, or is of a newer format.
    """
    refuse_links(table.uri)
    objects = Objects(table.uri)
    marker = objects.read(MARKER, LARGEST_DOCUMENT)
    if marker is not None:
        _refuse_others(table, owner_of(table, marker))
        return
    found = [name for name in objects.names() if not name.endswith(".partial")]
    if found:
        raise TableRefusedError(
            f"{table.uri} is no message store and is not empty (it holds {found[0]}); "
            "name an empty folder in spec.table.uri"
        )


def open_folder(table: Table, by: RunDocument | None = None) -> None:
    """Bring the folder to the form of this release: an empty one is made a store, what an earlier one lacks is added.

    The caller holds the right to write. Whatever this is cut off after, it can be done again.

    Args:
        table: the folder.
        by: the run's document; what becomes of a store that was there is told in its audit.

    Raises:
        TableRefusedError: as :func:`check_folder`; or a table says what no run of ours writes.
    """
    check_folder(table)
    _own(table, by)
    run = by.run if by else ""
    # The messages come last: where they are, all is.
    for name in reversed(TABLES):
        _complete(table.uri, name, run)


def is_complete(table: Table) -> bool:
    """Whether :func:`open_folder` would change nothing of a store that is there.

    Raises:
        TableRefusedError: a table says what no run of ours writes.
        TableNotFoundError: a table is missing.
    """
    if Objects(table.uri).read(MARKER, LARGEST_DOCUMENT) != _marker(table.owner):
        return False
    tables = {name: open_table(table.uri, name) for name in TABLES}
    return not any(_missing_columns(name, one) or _missing_properties(name, one) for name, one in tables.items())


def owner_of(table: Table, marker: bytes) -> Owner:
    """Whose a folder is, by its marker.

    Raises:
        TableRefusedError: it is no marker, or one of a newer format.
    """
    said = _said(table, marker)
    if said.format_version > FORMAT_VERSION:
        raise TableRefusedError(
            f"{table.uri} has format version {said.format_version}, this release knows up to {FORMAT_VERSION}; "
            "use the release that wrote it, or a newer one"
        )
    return parsed_document(_OwnersMarker, marker, join(table.uri, MARKER)).owner


def _said(table: Table, marker: bytes) -> "_Marker":
    return parsed_document(_Marker, marker, join(table.uri, MARKER))


class _Marker(BaseModel):
    """What a marker of any format says."""

    format_version: int = Field(alias="formatVersion")


class _OwnersMarker(_Marker):
    owner: Owner


def refuse_links(uri: str) -> None:
    """Refuse a local folder with a link in it: what it leads to is not the store's.

    Raises:
        TableRefusedError: there is one.
    """
    link = first_link(uri)
    if link is not None:
        raise TableRefusedError(f"{link} is no file or folder but a link or a device; no run makes such: remove it")


def _own(table: Table, by: RunDocument | None) -> None:
    """Let the marker name this owner and this format, before any table has what an earlier release can't know."""
    objects, wanted = Objects(table.uri), _marker(table.owner)
    marker = objects.read(MARKER, LARGEST_DOCUMENT)
    if marker is None:
        with external_write("marker"):
            made = objects.create(MARKER, wanted)
        # Of two that found the folder empty, one has made it its own.
        marker = wanted if made else objects.read(MARKER, LARGEST_DOCUMENT) or b""
        _refuse_others(table, owner_of(table, marker))
    if marker != wanted:
        _tell(table, by, marker)
        with external_write("marker"):
            objects.write(MARKER, wanted)


def _tell(table: Table, by: RunDocument | None, marker: bytes) -> None:
    """What the new marker changes; told before, so that it is not done untold."""
    if by is None or not exists(table.uri):
        return
    owner, version = owner_of(table, marker), _said(table, marker).format_version
    if owner != table.owner:
        note(table.uri, by, "Adopt", {"from": f"{owner.namespace}/{owner.name}"})
    if version < FORMAT_VERSION:
        note(table.uri, by, "Upgrade", {"from": version, "to": FORMAT_VERSION})


def _refuse_others(table: Table, owner: Owner) -> None:
    if owner == table.owner or any(former.covers(owner) for former in table.adopt_from):
        return
    take_over = f"set annotation messagestore.dev/adopt-table: {table.uri} to take it over"
    if owner.namespace != table.owner.namespace:
        take_over += "; its owner has to release it, by annotation messagestore.dev/release-table-to"
    raise TableRefusedError(f"{belongs(table, owner)}; name another folder, or {take_over}")


def belongs(table: Table, owner: Owner) -> str:
    """Whose the folder is, in words that tell another namespace nothing about its owner."""
    if owner.namespace != table.owner.namespace:
        return f"{table.uri} belongs to another namespace's MessageStream"
    return f"{table.uri} belongs to MessageStream {owner.namespace}/{owner.name}"


def _marker(owner: Owner) -> bytes:
    return json.dumps({"formatVersion": FORMAT_VERSION, "owner": owner.model_dump()}).encode()


def _complete(uri: str, name: str, run: str) -> None:
    """Make a table, or add what it lacks."""
    try:
        table = open_to_write(uri, name)
    except TableNotFoundError:
        _create(uri, name)
        return
    _add_columns(uri, name, table, run)
    _set_properties(uri, name, run)


def _create(uri: str, name: str) -> None:
    with external_write(f"create-{name}"):
        DeltaTable.create(
            delta_uri(join(uri, name)),
            TABLES[name],
            mode="ignore",
            partition_by=partition_columns(name) or None,
            configuration=properties(name),
            storage_options=current().delta_options(uri),
            commit_properties=commit_properties(uri),
        )


def _add_columns(uri: str, name: str, table: DeltaTable, run: str) -> None:
    """The columns that the table lacks, which an earlier release has made; its rows have nulls there."""
    missing = _missing_columns(name, table)
    if missing:
        added = Schema.from_arrow(pa.schema(missing)).fields
        with external_write(f"upgrade-{name}"):
            table.alter.add_columns(added, commit_properties=carrying_on(uri, name, table, run))


def _set_properties(uri: str, name: str, run: str) -> None:
    table = open_to_write(uri, name)
    missing = _missing_properties(name, table)
    if missing:
        with external_write(f"properties-{name}"):
            table.alter.set_table_properties(missing, commit_properties=carrying_on(uri, name, table, run))


def _missing_columns(name: str, table: DeltaTable) -> list[pa.Field]:
    there = {field.name for field in table.schema().fields}
    return [field for field in TABLES[name] if field.name not in there]


def _missing_properties(name: str, table: DeltaTable) -> dict[str, str]:
    return dict(properties(name).items() - table.metadata().configuration.items())


def exists(uri: str) -> bool:
    """Whether there is a message store in the folder; one that is only begun holds nothing, and is none."""
    options = current().delta_options(uri)
    return Objects(uri).exists(MARKER) and all(
        DeltaTable.is_deltatable(delta_uri(join(uri, name)), options) for name in _READ
    )
