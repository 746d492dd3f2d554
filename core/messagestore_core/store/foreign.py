"""Refuse tables whose log has something that no run of ours writes.

Anyone who can write to the bucket can write a log, and Delta follows it: Spark evaluates the expression of a generated
column at each write, with all of its SQL, and a file's path may lead anywhere. So a log may have only what we write. It
is checked as delta-rs reads it, each time a table is opened, and as Spark reads it, right before Spark opens a table:
the two may read a crafted log differently.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema

from messagestore_core.json_values import members_once
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.objects import join
from messagestore_core.store.schemas import EVERY_TABLE, GROWN, PARTITIONS, earlier_properties, properties
from messagestore_core.text import one_line

_READER, _WRITER = 1, 2
"""The newest protocol versions that we write; neither has table features."""
_RETENTIONS = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
_INTERVAL = re.compile(r"interval [0-9]{1,12} (second|minute|hour|day|week)s?")
PATH = r"^((inserted|purged)_date=[0-9]{4}-[0-9]{2}-[0-9]{2}/)?[A-Za-z0-9][A-Za-z0-9._-]*$"
"""The paths of data files that Spark and delta-rs write: below the table, with one spelling."""
_SHOWN = 200


class TableMetadata(NamedTuple):
    """Protocol and metadata of one version of a table; ``schema`` is JSON."""

    version: int
    reader: int
    writer: int
    features: Sequence[str]
    properties: Mapping[str, str]
    partitions: Sequence[str]
    schema: str


def refuse_foreign(uri: str, name: str, table: DeltaTable) -> None:
    """Check a table that delta-rs has opened, before anything is done with it.

    Raises:
        TableRefusedError: its log has something that no run of ours writes.
    """
    metadata = metadata_of(table)
    # Each time: what was found in a version may have been replaced under the same number.
    refuse(uri, name, metadata.version, not_ours(name, metadata) or outside(table))


def refuse(uri: str, name: str, version: int, what: str | None) -> None:
    """Raise TableRefusedError for a version of a table if there is something that no run of ours writes."""
    if what is not None:
        raise TableRefusedError(
            f"the log of {join(uri, name)} has at version {version} what no run of this release writes: {what}; "
            "nothing was read from it or written to it. Find out who writes to the folder, RESTORE an earlier version "
            "of the table, then accept that by `messagestore repair`: docs/recovery.md"
        )


def changed(uri: str, name: str, version: int, operation: str) -> str:
    """That somebody else has changed a table's data, for people."""
    return f"{join(uri, name)} was changed by another writer: {_shown(operation)} at version {version}"


def metadata_of(table: DeltaTable) -> TableMetadata:
    """Protocol and metadata of an opened table, as delta-rs reads them."""
    protocol, metadata = table.protocol(), table.metadata()
    return TableMetadata(
        table.version(),
        protocol.min_reader_version,
        protocol.min_writer_version,
        [*(protocol.reader_features or ()), *(protocol.writer_features or ())],
        metadata.configuration,
        metadata.partition_columns,
        table.schema().to_json(),
    )


def not_ours(name: str, metadata: TableMetadata) -> str | None:
    """The first thing in a table's log that no run of ours writes, for people; None without any."""
    return next(_unwritten(name, metadata), None)


def not_to_be_read(table: DeltaTable) -> str | None:
    """Why a reader can't read a table, for people: its rows would not come from its own files as they are; else None.

    Columns are not checked, so that a reader can also read a store of a newer release.
    """
    return next(_unwritten_protocol(metadata_of(table)), None) or outside(table)


def outside(table: DeltaTable) -> str | None:
    """A data file outside the table or with a name that is not ours, for people; None without one."""
    paths = pa.table(table.get_add_actions())["path"]
    strange = pc.invert(pc.match_substring_regex(paths, PATH))
    strange_paths = paths.filter(strange)
    return f"it has the file {_shown(strange_paths[0].as_py())}" if len(strange_paths) else None


def _unwritten(name: str, metadata: TableMetadata) -> Iterator[str]:
    yield from _unwritten_protocol(metadata)
    for key, value in metadata.properties.items():
        if not _is_our_property(name, key, value):
            yield f"it has the property {_shown(f'{key}={value}')}"
    if list(metadata.partitions) != partition_columns(name):
        yield f"it is partitioned by {_shown(', '.join(metadata.partitions)) or 'nothing'}"
    yield from _unwritten_columns(name, metadata.schema)


def _unwritten_protocol(metadata: TableMetadata) -> Iterator[str]:
    if metadata.reader > _READER or metadata.writer > _WRITER or metadata.features:
        features = f" with {_shown(', '.join(sorted(set(metadata.features))))}" if metadata.features else ""
        yield f"it asks for readers of version {metadata.reader} and writers of version {metadata.writer}{features}"


def _is_our_property(name: str, key: str, value: str) -> bool:
    if key in _RETENTIONS:
        return _INTERVAL.fullmatch(value) is not None
    return value == properties(name).get(key) or value in earlier_properties(name).get(key, ())


def partition_columns(name: str) -> list[str]:
    """The columns that a table of ours is partitioned by."""
    return [PARTITIONS[name]] if name in PARTITIONS else []


def _unwritten_columns(name: str, schema: str) -> Iterator[str]:
    """Compare each column's whole JSON with ours: an expression would be a key that we don't write."""
    try:
        fields = json.loads(schema, object_pairs_hook=members_once)["fields"]
        by_name = {field["name"]: field for field in fields}
    except (ValueError, KeyError, TypeError, RecursionError):
        yield "its columns can't be read"
        return
    if len(by_name) != len(fields):
        yield "it has a column twice"
    ours = _fields(name)
    for column, field in by_name.items():
        if column not in ours:
            yield f"it has a column {_shown(column)}"
        elif field != ours[column]:
            yield f"its column {column} is {_shown(json.dumps(field))}"
    for column, field in ours.items():
        if column not in by_name and not (name in GROWN and field["nullable"]):
            yield f"it has no column {column}"


@lru_cache(len(EVERY_TABLE))
def _fields(name: str) -> dict[str, Any]:
    fields = json.loads(Schema.from_arrow(EVERY_TABLE[name]).to_json())["fields"]
    return {field["name"]: field for field in fields}


def _shown(text: str) -> str:
    """A text of somebody else, cut to what a message has room for."""
    return one_line(text, _SHOWN)
