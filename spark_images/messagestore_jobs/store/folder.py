"""The table folder: whose it is, and the tables in it."""

import json

import pyarrow as pa
from deltalake import DeltaTable, Schema

from messagestore_jobs.contract.run_document import Owner, Table
from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import Objects, delta_uri, join
from messagestore_jobs.store.schemas import GROWN, MESSAGES_PROPERTIES, TABLES
from messagestore_jobs.store.storage import current

FORMAT_VERSION = 1
MARKER = "_messagestore.json"


def open_folder(table: Table) -> None:
    """Make sure the folder is this owner's and has its tables; an empty or missing one is made.

    Raises:
        TableRefusedError: the folder is another's, holds something else, or is of a newer format.
    """
    objects = Objects(table.uri)
    marker = objects.read(MARKER)
    if marker is None:
        found = [name for name in objects.names() if not name.endswith(".partial")]
        if found:
            raise TableRefusedError(
                f"{table.uri} is no message store and is not empty (it holds {found[0]}); "
                "name an empty folder in spec.table.uri"
            )
        _write_marker(objects, table.owner)
    else:
        _check_marker(objects, marker, table)
    for name in TABLES:
        _create(join(table.uri, name), name)


def owner_of(table: Table, marker: bytes) -> Owner:
    """Whose a folder is, by its marker.

    Raises:
        TableRefusedError: it is no marker, or one of a newer format.
    """
    try:
        content = json.loads(marker)
        version, owner = int(content["formatVersion"]), Owner(**content["owner"])
    except (ValueError, KeyError, TypeError) as error:
        raise TableRefusedError(f"{join(table.uri, MARKER)} is not the marker of a message store") from error
    if version > FORMAT_VERSION:
        raise TableRefusedError(
            f"{table.uri} has format version {version}, this release knows up to {FORMAT_VERSION}; "
            "use the release that wrote it, or a newer one"
        )
    return owner


def _check_marker(objects: Objects, marker: bytes, table: Table) -> None:
    owner = owner_of(table, marker)
    if owner != table.owner:
        if not table.adopt:
            raise TableRefusedError(
                f"{table.uri} belongs to MessageStream {owner.namespace}/{owner.name}; name another folder, or "
                f"set annotation messagestore.dev/adopt-table: {table.uri} to take it over"
            )
        _write_marker(objects, table.owner)


def _write_marker(objects: Objects, owner: Owner) -> None:
    content = {"formatVersion": FORMAT_VERSION, "owner": owner.model_dump()}
    with external_write("marker"):
        objects.write(MARKER, json.dumps(content).encode())


def _create(uri: str, name: str) -> None:
    options = current().delta_options(uri)
    if DeltaTable.is_deltatable(delta_uri(uri), options):
        if name in GROWN:
            _add_columns(uri, name, options)
        return
    with external_write(f"create-{name}"):
        DeltaTable.create(
            delta_uri(uri),
            TABLES[name],
            mode="ignore",
            partition_by=["inserted_date"] if name == "messages" else None,
            configuration=MESSAGES_PROPERTIES if name == "messages" else None,
            storage_options=options,
        )


def _add_columns(uri: str, name: str, options: dict[str, str] | None) -> None:
    """The columns that the table lacks, which an earlier release has made; its rows have nulls there."""
    table = DeltaTable(delta_uri(uri), storage_options=options)
    there = {field.name for field in table.schema().fields}
    missing = [field for field in TABLES[name] if field.name not in there]
    if missing:
        with external_write(f"upgrade-{name}"):
            table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)


def exists(uri: str) -> bool:
    """Whether there is a message store in the folder."""
    return Objects(uri).exists(MARKER)
