"""The table folder: whose it is, and the tables in it."""

import json

import pyarrow as pa
from deltalake import DeltaTable, Schema
from pydantic import BaseModel, Field

from messagestore_jobs.contract.run_document import Owner, Table
from messagestore_jobs.store.documents import LARGEST, parsed
from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.foreign import partition_columns
from messagestore_jobs.store.history import open_table
from messagestore_jobs.store.objects import Objects, delta_uri, first_link, join
from messagestore_jobs.store.schemas import TABLES, properties
from messagestore_jobs.store.storage import current

FORMAT_VERSION = 1
MARKER = "_messagestore.json"


def open_folder(table: Table) -> None:
    """Make sure the folder is this owner's and has its tables; an empty or missing one is made.

    Raises:
        TableRefusedError: the folder is another's, holds something else, or is of a newer format; or a table says what
            no run of ours writes.
    """
    refuse_links(table.uri)
    objects = Objects(table.uri)
    marker = objects.read(MARKER, LARGEST)
    if marker is None:
        found = [name for name in objects.names() if not name.endswith(".partial")]
        if found:
            raise TableRefusedError(
                f"{table.uri} is no message store and is not empty (it holds {found[0]}); "
                "name an empty folder in spec.table.uri"
            )
        with external_write("marker"):
            made = objects.create(MARKER, _marker(table.owner))
        # Of two that found the folder empty, one has made it its own.
        marker = None if made else objects.read(MARKER, LARGEST)
    if marker is not None:
        _check_marker(objects, marker, table)
    for name in TABLES:
        _create(table.uri, name)


def owner_of(table: Table, marker: bytes) -> Owner:
    """Whose a folder is, by its marker.

    Raises:
        TableRefusedError: it is no marker, or one of a newer format.
    """
    said = parsed(_Marker, marker, join(table.uri, MARKER))
    if said.format_version > FORMAT_VERSION:
        raise TableRefusedError(
            f"{table.uri} has format version {said.format_version}, this release knows up to {FORMAT_VERSION}; "
            "use the release that wrote it, or a newer one"
        )
    return parsed(_OwnersMarker, marker, join(table.uri, MARKER)).owner


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


def _check_marker(objects: Objects, marker: bytes, table: Table) -> None:
    owner = owner_of(table, marker)
    if owner == table.owner:
        return
    if not any(former.covers(owner) for former in table.adopt_from):
        take_over = f"set annotation messagestore.dev/adopt-table: {table.uri} to take it over"
        if owner.namespace != table.owner.namespace:
            take_over += "; its owner has to release it, by annotation messagestore.dev/release-table-to"
        raise TableRefusedError(f"{belongs(table, owner)}; name another folder, or {take_over}")
    with external_write("marker"):
        objects.write(MARKER, _marker(table.owner))


def belongs(table: Table, owner: Owner) -> str:
    """Whose the folder is, in words that tell another namespace nothing about its owner."""
    if owner.namespace != table.owner.namespace:
        return f"{table.uri} belongs to another namespace's MessageStream"
    return f"{table.uri} belongs to MessageStream {owner.namespace}/{owner.name}"


def _marker(owner: Owner) -> bytes:
    return json.dumps({"formatVersion": FORMAT_VERSION, "owner": owner.model_dump()}).encode()


def _create(uri: str, name: str) -> None:
    options, place = current().delta_options(uri), delta_uri(join(uri, name))
    if DeltaTable.is_deltatable(place, options):
        _add_columns(name, open_table(uri, name))
        return
    with external_write(f"create-{name}"):
        DeltaTable.create(
            place,
            TABLES[name],
            mode="ignore",
            partition_by=partition_columns(name) or None,
            configuration=properties(name),
            storage_options=options,
        )


def _add_columns(name: str, table: DeltaTable) -> None:
    """The columns that the table lacks, which an earlier release has made; its rows have nulls there."""
    there = {field.name for field in table.schema().fields}
    missing = [field for field in TABLES[name] if field.name not in there]
    if missing:
        with external_write(f"upgrade-{name}"):
            table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)


def exists(uri: str) -> bool:
    """Whether there is a message store in the folder."""
    return Objects(uri).exists(MARKER)
